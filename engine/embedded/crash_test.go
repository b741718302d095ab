package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

const (
	killDir   = "HARNESS_TEST_KILL_DIR"
	killRound = "HARNESS_TEST_KILL_ROUND"
)

const killWriters = 4

// TestKilledChild is the process that TestKill kills. It says each write that
// was acknowledged, one line each: what was written, its id, its number.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		return // Only a child of TestKill has work to do.
	}
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: dir})
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	db.SetTriggered(func(scope, _ string) bool { return scope == "triggered" }, nil)
	var said sync.Mutex
	say := func(what string, n int64, id string) {
		said.Lock()
		defer said.Unlock()
		if _, err := fmt.Println(what, n, id); err != nil {
			os.Exit(1) // The parent is gone.
		}
	}
	ctx := context.Background()
	base := int64(-1)
	if head, err := db.Streams().Head(ctx, "log", "g"); err == nil {
		base = head.Tail
	}
	for w := range killWriters {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%s.%d.%d", os.Getenv(killRound), w, n)
				if err := writeAll(ctx, db, w, n, base, id, say); err != nil {
					fmt.Println("failed", err)
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

// writeAll makes one write of each kind.
func writeAll(ctx context.Context, db *embedded.DB, w, n int, base int64, id string, say func(string, int64, string)) error {
	value := json.RawMessage(strconv.Quote(id))
	pair := []state.Write{state.Set("a", id, value), state.Set("b", id, value)}
	record := db.State().Submit(ctx, pair)
	chained := db.State().Submit(ctx, []state.Write{state.Set("triggered", id, value)}, record)
	log := db.Streams().SubmitAppend(ctx, stream.Append{Stream: "log", Group: "g", Base: base, Events: []stream.LogEvent{{ID: id, Data: value}}}, chained)
	seqs, err := log.Wait(ctx)
	if err != nil {
		return err
	}
	say("set", 0, id)
	say("append", seqs.Seqs[0], id)
	counted, err := state.Do(ctx, db.State(), state.Update("count", fmt.Sprint(w), state.Op{Type: "increment", Path: json.RawMessage(`""`), By: json.RawMessage(`1`)}))
	if err != nil {
		return err
	}
	say("count", counted.Version, fmt.Sprint(w))
	if n%8 != 0 {
		return nil
	}
	large := json.RawMessage(strconv.Quote(id + strings.Repeat("x", state.InlineLimit)))
	if _, err := state.Do(ctx, db.State(), state.Set("large", fmt.Sprint(w), large)); err != nil {
		return err
	}
	say("large", 0, fmt.Sprintf("%d/%s", w, id))
	info, err := db.Blobs().Put(ctx, "s", "", strings.NewReader(id))
	if err != nil {
		return err
	}
	say("blob", 0, info.ID+"/"+id)
	return nil
}

// killed is what children said before they were killed.
type killed struct {
	set    map[string]bool
	append map[int64]string
	count  map[string]int64
	large  map[string]string
	blobs  map[string]string
}

// TestKill kills a writing process again and again. Nothing that was
// acknowledged is lost, and nothing is there by halves.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := killed{map[string]bool{}, map[int64]string{}, map[string]int64{}, map[string]string{}, map[string]string{}}
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 8 {
		killOnce(t, dir, round, 20+r.IntN(400), &said)
		db := open(t, embedded.Options{Dir: dir})
		verifyKilled(t, db, &said)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

// killOnce starts a child and kills it after some lines and a moment.
func killOnce(t *testing.T, dir string, round, lines int, said *killed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledChild$")
	child.Env = append(os.Environ(), killDir+"="+dir, killRound+"="+fmt.Sprint(round))
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	for n := 0; scan.Scan(); n++ {
		if n == lines {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := said.add(scan.Text()); err != nil {
			t.Error(err)
		}
	}
	_ = child.Wait() // It was killed.
	if ctx.Err() != nil {
		t.Fatalf("the child of round %d said too little", round)
	}
}

func (k *killed) add(line string) error {
	what, rest, _ := strings.Cut(line, " ")
	number, id, ok := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("the child says %q", line)
	}
	switch what {
	case "set":
		k.set[id] = true
	case "append":
		k.append[n] = id
	case "count":
		k.count[id] = max(k.count[id], n)
	case "large":
		w, id, _ := strings.Cut(id, "/")
		k.large[w] = id
	case "blob":
		blobID, id, _ := strings.Cut(id, "/")
		k.blobs[blobID] = id
	default:
		return fmt.Errorf("the child says %q", line)
	}
	return nil
}

func verifyKilled(t *testing.T, db *embedded.DB, said *killed) {
	t.Helper()
	ctx := t.Context()
	stored := map[string]map[string]bool{}
	for _, scope := range []string{"a", "b", "triggered"} {
		items, err := db.State().List(ctx, scope, state.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored[scope] = map[string]bool{}
		for _, item := range items {
			stored[scope][item.Key.Key] = true
		}
	}
	for id := range said.set {
		if !stored["a"][id] || !stored["b"][id] || !stored["triggered"][id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	for id := range stored["a"] {
		if !stored["b"][id] {
			t.Errorf("half of the transaction %s is there", id)
		}
	}
	for id := range stored["triggered"] {
		if !stored["a"][id] {
			t.Errorf("%s is there without what it comes after", id)
		}
	}
	if got, want := db.Feed(embedded.FeedState).Waiting(), len(stored["triggered"]); got != want {
		t.Errorf("got %d rows in the feed, want one for each of the %d changes", got, want)
	}
	items, err := db.Streams().Read(ctx, "log", "g", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i, item := range items {
		if want := fmt.Sprintf("g-%08d", i); item.Item != want {
			t.Fatalf("got item %s, want %s", item.Item, want)
		}
		if ids[item.EventID] {
			t.Errorf("the event %s is there twice", item.EventID)
		}
		ids[item.EventID] = true
	}
	for n, id := range said.append {
		if n >= int64(len(items)) || items[n].EventID != id {
			t.Errorf("the event %s was acknowledged as number %d and is not there", id, n)
		}
	}
	for w, n := range said.count {
		item, _, err := db.State().Get(ctx, state.Key{Scope: "count", Key: w})
		if got := string(item.Value); err != nil || item.Version < n || got != fmt.Sprint(item.Version) {
			t.Errorf("counter %s: got %s at version %d, error %v; want %d or more", w, got, item.Version, err, n)
		}
	}
	verifyFiles(t, db, said)
}

func verifyFiles(t *testing.T, db *embedded.DB, said *killed) {
	t.Helper()
	for w, id := range said.large {
		item, ok, err := db.State().Get(t.Context(), state.Key{Scope: "large", Key: w})
		if err != nil || !ok || len(item.Value) < state.InlineLimit {
			t.Errorf("large value %s of writer %s: got %d bytes, error %v", id, w, len(item.Value), err)
		}
	}
	for blobID, id := range said.blobs {
		if got, err := readAll(t.Context(), db.Blobs(), blobID); err != nil || got != id {
			t.Errorf("blob %s: got %q, error %v; want %q", blobID, got, err, id)
		}
	}
	for _, dir := range []string{"values", "blobs"} {
		left, err := filepath.Glob(filepath.Join(db.Dir(), dir, "tmp-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("got leftovers %v, error %v; want none", left, err)
		}
	}
}

func readAll(ctx context.Context, s blob.Store, id string) (string, error) {
	r, err := s.Open(ctx, id, 0)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

// TestKillAtEveryPoint kills the process before and after each durable point
// of a chain. The chain is there whole or not at all.
func TestKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, when := range []string{embedded.FaultBefore, embedded.FaultAfter} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledAtCommitChild$")
			child.Env = append(os.Environ(), killDir+"="+dir, killRound+"="+when)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() || len(out) != 0 {
				t.Fatalf("got error %v, output %q; want a child that was killed", err, out)
			}
			db := open(t, embedded.Options{Dir: dir})
			for _, key := range []string{"a", "b"} {
				_, ok, err := db.State().Get(t.Context(), state.Key{Scope: "s", Key: key})
				if err != nil || ok != (when == embedded.FaultAfter) {
					t.Errorf("%s: got %v, error %v; want %v", key, ok, err, when == embedded.FaultAfter)
				}
			}
		})
	}
}

// TestKilledAtCommitChild is the process of TestKillAtEveryPoint.
func TestKilledAtCommitChild(t *testing.T) {
	dir, when := os.Getenv(killDir), os.Getenv(killRound)
	if dir == "" {
		return // Only a child of TestKillAtEveryPoint has work to do.
	}
	held, queued := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fault := func(op, now string) error {
		once.Do(func() {
			close(held)
			<-queued // so that both share a commit
		})
		if op != embedded.FaultCommit || now != when {
			return nil
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := self.Kill(); err != nil {
			return err
		}
		select {}
	}
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: dir, Fault: fault})
	if err != nil {
		t.Fatal(err)
	}
	db.State().Submit(t.Context(), nil)
	<-held
	first := db.State().Submit(t.Context(), []state.Write{state.Set("s", "a", nil)})
	second := db.State().Submit(t.Context(), []state.Write{state.Set("s", "b", nil)}, first)
	close(queued)
	_, err = second.Wait(t.Context())
	t.Fatalf("got error %v, want to be dead", err)
}
