package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/timer"
)

func FuzzDecodeMessage(f *testing.F) {
	key := numbered("q", 7)
	m := storedMessage{
		Message: queue.Message{Queue: "q", Group: "g", FunctionID: "f", Data: json.RawMessage(`{"a": 1}`), Principal: bus.Principal{ID: "p"}},
		ID:      "i", SentAt: 1, Error: "e", FailedAt: 2, Receives: 3,
	}
	whole, err := m.encode(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-4])
	m.FailedAt = 0
	if whole, err = m.encode(key); err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-4])
	m.Data, m.file, m.fileSize, m.fileSum = nil, "f00d", 300_000, 7
	if whole, err = m.encode(key); err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-4])
	f.Add([]byte{messageFormat})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		sealed := sealMessage(key, bytes.Clone(body))
		if _, err := messageGroup(key, sealed); err == nil {
			m, err := decodeMessage("q", key, sealed)
			if err == nil {
				again, err := m.encode(key)
				if err != nil {
					t.Fatal(err)
				}
				back, err := decodeMessage("q", key, again)
				if err != nil {
					t.Fatal(err)
				}
				if m.FailedAt == 0 {
					m.Error, m.Receives = "", 0
				}
				if diff := cmp.Diff(m, back, cmp.AllowUnexported(storedMessage{})); diff != "" {
					t.Errorf("round trip (-want +got):\n%s", diff)
				}
			}
		}
		// None of these may panic.
		_, _ = decodeReceives(key, sealed)
		_, _ = decodeDedup(key, sealed)
		_, _ = decodeTimer(key, sealed)
		_, _ = decodeConfig(key, sealed)
		if len(body) > 0 {
			sealed[0] ^= 0xff
			if _, err := decodeMessage("q", key, sealed); err == nil {
				t.Error("a flipped byte was not noticed")
			}
		}
	})
}

func TestBackoffOfManyReceives(t *testing.T) {
	t.Parallel()
	d := queue.Config{Backoff: time.Hour}.BackoffAfter(1000)
	if d < 100*365*24*time.Hour || d > math.MaxInt64/2 {
		t.Errorf("backoff after 1000 receives is %v, want long and no overflow", d)
	}
}

// damaged is a DB with a queue of two messages, a timer and a dedup id.
type damaged struct {
	*testing.T
	db    *DB
	q     *Queue
	timer *Timer
	clock *clock.Fake
	mu    sync.Mutex
	log   bytes.Buffer
}

func (d *damaged) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func newDamaged(t *testing.T) *damaged {
	d := &damaged{T: t, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	ctx := context.Background()
	var err error
	d.db, err = Open(ctx, Options{Dir: t.TempDir(), Clock: d.clock, NoSync: true, Logger: slog.New(slog.NewTextHandler(d, nil))})
	d.ok(err)
	t.Cleanup(func() { d.ok(d.db.Close()) })
	d.q, err = OpenQueue(ctx, d.db)
	d.ok(err)
	d.timer, err = OpenTimer(ctx, d.db, d.q)
	d.ok(err)
	_, err = d.q.Define(ctx, queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 1})
	d.ok(err)
	for _, text := range []string{`"first"`, `"second"`} {
		_, err = d.q.Submit(ctx, queue.Message{Queue: "q", Group: "g", FunctionID: "f", DedupID: text, Data: json.RawMessage(text)}).Wait(ctx)
		d.ok(err)
	}
	return d
}

func (d *damaged) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// damage flips a byte of the first record of a bucket.
func (d *damaged) damage(bucket []byte) {
	d.Helper()
	_, err := submit(d.db, "test.damage", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		k, v := c.bucket(bucket).Cursor().First()
		v = bytes.Clone(v)
		v[len(v)/2] ^= 1
		return struct{}{}, c.put(bucket, bytes.Clone(k), v)
	}).Wait(context.Background())
	d.ok(err)
}

func (d *damaged) wantLog(text string) {
	d.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !strings.Contains(d.log.String(), text) {
		d.Errorf("the log lacks %s:\n%s", text, d.log.String())
	}
}

// TestDamagedMessage checks that a damaged message is set aside with an alarm,
// and does not stop its queue.
func TestDamagedMessage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	d.damage(messageBucket)
	ds, err := d.q.Receive(ctx, "q", 10)
	d.ok(err)
	if string(ds[0].Data) != `"second"` {
		t.Errorf("received %s, want second", ds[0].Data)
	}
	d.wantLog("alarm=corrupt_message")
}

// TestDamagedMessageDies has the damage found when the message is given up.
func TestDamagedMessageDies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	_, err := d.q.Receive(ctx, "q", 1)
	d.ok(err)
	d.damage(messageBucket)
	d.clock.Advance(time.Minute)
	ds, err := d.q.Receive(ctx, "q", 1)
	d.ok(err)
	if string(ds[0].Data) != `"second"` {
		t.Errorf("received %s, want second", ds[0].Data)
	}
	d.wantLog("alarm=corrupt_message")
}

func TestDamagedFailedMessage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	ds, err := d.q.Receive(ctx, "q", 1)
	d.ok(err)
	d.damage(messageBucket)
	var corrupt *CorruptError
	if dead, err := d.q.Fail(ctx, "q", ds[0].Receipt, errors.New("x")); dead || !errors.As(err, &corrupt) {
		t.Errorf("Fail of a damaged message: %v, %v, want a CorruptError", dead, err)
	}
	ds, err = d.q.Receive(ctx, "q", 1)
	d.ok(err)
	if string(ds[0].Data) != `"second"` {
		t.Errorf("received %s, want second", ds[0].Data)
	}
}

func TestDamagedDeadLetter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	ds, err := d.q.Receive(ctx, "q", 1)
	d.ok(err)
	_, err = d.q.Fail(ctx, "q", ds[0].Receipt, errors.New("x"))
	d.ok(err)
	d.damage(deadBucket)
	var errs [3]error
	_, errs[0] = d.q.DeadLetters(ctx, "q", 0, 1)
	_, errs[1] = d.q.Redrive(ctx, "q", "")
	_, errs[2] = d.q.Discard(ctx, "q", ds[0].ID)
	for i, err := range errs {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Errorf("operation %d: %v, want a CorruptError", i, err)
		}
	}
}

func TestDamagedDedup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	d.damage(dedupBucket)
	fresh := 0
	for _, text := range []string{`"first"`, `"second"`} {
		sent, err := d.q.Submit(ctx, queue.Message{Queue: "q", Group: "g", FunctionID: "f", DedupID: text}).Wait(ctx)
		d.ok(err)
		if !sent.Duplicate {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of the two ids were free, want the damaged one", fresh)
	}
	d.wantLog("alarm=corrupt_dedup")
}

// TestDamagedTimer checks that a damaged timer does not stop the others.
func TestDamagedTimer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := newDamaged(t)
	for _, id := range []string{"a", "b"} {
		_, err := d.timer.Submit(ctx, timer.Timer{ID: id, At: d.clock.Now().Add(time.Minute), Message: queue.Message{Queue: "default", FunctionID: "f", ReceiptID: id}}).Wait(ctx)
		d.ok(err)
	}
	d.damage(timerBucket)
	d.clock.Advance(time.Minute)
	ds, err := d.q.Receive(ctx, "default", 10)
	d.ok(err)
	if len(ds) != 1 || ds[0].ReceiptID != "b" {
		t.Errorf("fired %v, want b alone", ds)
	}
	d.wantLog("alarm=corrupt_timer")
	_, err = d.timer.Cancel(ctx, "a").Wait(ctx)
	d.ok(err)
}

// TestDamagedAtOpen checks that damage shows when the ports are opened.
func TestDamagedAtOpen(t *testing.T) {
	t.Parallel()
	for _, bucket := range [][]byte{queueBucket, messageBucket, receiveBucket, deadBucket, timerBucket} {
		t.Run(string(bucket), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			d := newDamaged(t)
			_, err := d.timer.Submit(ctx, timer.Timer{ID: "a", At: d.clock.Now().Add(time.Hour), Message: queue.Message{Queue: "default", FunctionID: "f"}}).Wait(ctx)
			d.ok(err)
			_, err = d.q.Submit(ctx, queue.Message{Queue: "default", FunctionID: "f"}).Wait(ctx)
			d.ok(err)
			for _, name := range []string{"q", "default"} {
				ds, err := d.q.Receive(ctx, name, 1)
				d.ok(err)
				_, err = d.q.Fail(ctx, name, ds[0].Receipt, errors.New("x"))
				d.ok(err)
			}
			d.damage(bucket)
			q, err := OpenQueue(ctx, d.db)
			if err == nil {
				_, err = OpenTimer(ctx, d.db, q)
			}
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(corrupt.What, strings.TrimSuffix(string(bucket), "_due")) {
				t.Errorf("open: %v, want a CorruptError that names %s", err, bucket)
			}
		})
	}
}

// TestOrphans has records of queues and messages that do not exist.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		bucket []byte
		key    []byte
	}{
		{"message of no queue", messageBucket, numbered("gone", 1)},
		{"message without a number", messageBucket, []byte("q")},
		{"receives of no message", receiveBucket, numbered("q", 99)},
		{"dead letter of no queue", deadBucket, numbered("gone", 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			d := newDamaged(t)
			_, err := submit(d.db, "test.orphan", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
				return struct{}{}, c.put(test.bucket, test.key, storedReceives{}.encode(test.key))
			}).Wait(ctx)
			d.ok(err)
			var corrupt *CorruptError
			if _, err := OpenQueue(ctx, d.db); !errors.As(err, &corrupt) {
				t.Errorf("OpenQueue: %v, want a CorruptError", err)
			}
		})
	}
}
