package embedded_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
)

// valueFiles is the files of values.
func (r *ring) valueFiles() []string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "values", "*", "*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// The copies of a message are stored all or not at all, whatever fails, also those whose data lies in files.
func TestQueueFaultSubmitAll(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	names := []string{"a", "b", "c"}
	data := json.RawMessage(`"` + strings.Repeat("x", state.InlineLimit) + `"`)
	var ms []queue.Message
	for _, name := range names {
		r.define(queue.Config{Name: name})
		ms = append(ms, queue.Message{Queue: name, FunctionID: "t::f", Data: data})
	}
	want := func(depth int) {
		t.Helper()
		r.reopen()
		for _, name := range names {
			if diff := cmp.Diff(queue.Stats{Depth: depth}, r.stats(name)); diff != "" {
				t.Errorf("queue %s (-want +got):\n%s", name, diff)
			}
		}
		if got := len(r.valueFiles()); got != depth*len(names) {
			t.Errorf("%d files, want %d", got, depth*len(names))
		}
	}
	for _, op := range []string{"queue.submit_all", "commit"} {
		f.failNext(op, "before", 1)
		if _, err := r.queue.SubmitAll(testContext(t), ms).Wait(testContext(t)); !errors.Is(err, errDisk) {
			t.Errorf("a fault in %s: %v", op, err)
		}
		want(0)
	}
	f.failNext("commit", "after", 1)
	if _, err := r.queue.SubmitAll(testContext(t), ms).Wait(testContext(t)); !errors.Is(err, errDisk) {
		t.Errorf("a lost answer: %v", err)
	}
	want(1)
	for _, name := range names {
		d := r.one(name)
		if string(d.Data) != string(data) {
			t.Errorf("queue %s: data of %d bytes", name, len(d.Data))
		}
		r.ack(d)
	}
	want(0)
}

// The file of a message's data goes when the message goes, whichever way.
func TestQueueDataFilesGo(t *testing.T) {
	t.Parallel()
	r := newRing(t, nil)
	r.define(queue.Config{Name: "q", MaxReceives: 1, DeadLetterFunction: "t::dead"})
	r.send(queue.Message{Queue: "q", FunctionID: "t::f", Data: json.RawMessage(`"` + strings.Repeat("x", state.InlineLimit) + `"`)})
	files := func(want int) {
		t.Helper()
		if got := len(r.valueFiles()); got != want {
			t.Errorf("%d files, want %d", got, want)
		}
	}
	files(1)
	if dead, err := r.queue.Fail(testContext(t), "q", r.one("q").Receipt, errDisk); !dead || err != nil {
		t.Fatalf("Fail: %v, %v", dead, err)
	}
	files(2) // the dead letter's, and that of the message to the function
	r.ack(r.one(queue.DeadLetterQueue))
	files(1)
	dead, err := r.queue.DeadLetters(testContext(t), "q", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.queue.Discard(testContext(t), "q", dead[0].ID); !ok || err != nil {
		t.Fatalf("Discard: %v, %v", ok, err)
	}
	files(0)
}

// A message whose data file was damaged is set aside, with an alarm, and keeps nobody waiting.
func TestQueueDamagedDataFile(t *testing.T) {
	t.Parallel()
	r := newRing(t, nil)
	r.define(queue.Config{Name: "q"})
	r.send(queue.Message{Queue: "q", FunctionID: "t::f", Data: json.RawMessage(`"` + strings.Repeat("x", state.InlineLimit) + `"`)})
	found := r.valueFiles()
	if len(found) != 1 {
		t.Fatalf("files %v", found)
	}
	if err := os.WriteFile(found[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(queue.Message{Queue: "q", FunctionID: "t::f", Data: json.RawMessage(`2`)})
	if d := r.one("q"); string(d.Data) != `2` {
		t.Errorf("got %d bytes", len(d.Data))
	}
	if !strings.Contains(r.log.String(), "corrupt_message") {
		t.Error("no alarm")
	}
}
