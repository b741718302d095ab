package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/timer"
)

const (
	crashDir   = "HARNESS_TEST_QUEUE_CRASH_DIR"
	crashRound = "HARNESS_TEST_QUEUE_CRASH_ROUND"
)

// TestQueueCrashChild is the process that TestQueueCrash kills. It reports what
// it does, one line each, the moment it knows.
func TestQueueCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return // Only a child of TestQueueCrash has work to do.
	}
	q, timers := openCrashDB(t, dir)
	ctx := context.Background()
	say := func(what, id string) {
		if _, err := fmt.Fprintf(os.Stdout, "%s %s\n", what, id); err != nil {
			os.Exit(1) // The parent is gone.
		}
	}
	for sender := range 4 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%s/%d/%d", os.Getenv(crashRound), sender, n)
				m := queue.Message{Queue: "q", Group: crashGroup(n), FunctionID: "t::f", Data: json.RawMessage(strconv.Quote(id))}
				if _, err := q.Submit(ctx, m).Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				say("sent", id)
				if n%10 != 0 {
					continue
				}
				m.Queue, m.Group = "fired", ""
				if _, err := timers.Submit(ctx, timer.Timer{ID: id, At: time.Now(), Message: m}).Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				say("set", id)
			}
		}()
	}
	for {
		ds, err := q.Receive(ctx, "q", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			id := crashID(d.Message)
			if crashHeld(id) {
				continue
			}
			say("acking", id)
			p := q.Ack(ctx, "q", d.Receipt)
			go func() {
				if _, err := p.Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				say("acked", id)
			}()
		}
	}
}

// TestQueueCrash kills a process that sends and acknowledges, again and again.
// Nothing that was acknowledged to a sender is lost, nothing that a receiver
// acknowledged comes again, no timer fires twice.
func TestQueueCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := map[string]map[string]bool{"sent": {}, "acking": {}, "acked": {}, "set": {}}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		crashOnce(t, dir, round, 100+r.IntN(1500), said)
	}
	q, _ := openCrashDB(t, dir)
	got := map[string]bool{}
	last := map[string]int{}
	for _, id := range drainCrash(t, q, "q", nil) {
		if got[id] {
			t.Errorf("%s was delivered twice", id)
		}
		got[id] = true
		if said["acked"][id] {
			t.Errorf("%s was acknowledged and came again", id)
		}
		n, from := crashNumber(id), id[:strings.LastIndexByte(id, '/')]+" "+crashGroup(crashNumber(id))
		if before, ok := last[from]; ok && before > n {
			t.Errorf("%s came after number %d of its group", id, before)
		}
		last[from] = n
	}
	lost := 0
	for id := range said["sent"] {
		if !got[id] && !said["acking"][id] {
			lost++
			t.Errorf("%s was sent, never acknowledged, and is lost", id)
		}
	}
	fired := map[string]int{}
	for _, id := range drainCrash(t, q, "fired", said["set"]) {
		fired[id]++
	}
	for id := range said["set"] {
		if fired[id] != 1 {
			t.Errorf("timer %s fired %d times, want once", id, fired[id])
		}
	}
	t.Logf("%d sent, %d acknowledged, %d left over, %d timers, %d lost", len(said["sent"]), len(said["acked"]), len(got), len(said["set"]), lost)
	if len(said["acked"]) == 0 || len(got) == 0 || len(said["set"]) == 0 {
		t.Error("the children did too little for this to show anything")
	}
}

// crashOnce runs a child, kills it after so many lines and notes what it said.
func crashOnce(t *testing.T, dir string, round, lines int, said map[string]map[string]bool) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestQueueCrashChild$", "-test.timeout=60s")
	child.Env = append(os.Environ(), crashDir+"="+dir, crashRound+"="+strconv.Itoa(round))
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			break // What is left is half a line.
		}
		if err != nil {
			t.Fatal(err)
		}
		if what, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok && said[what] != nil {
			said[what][id] = true
		}
		if n == lines {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
		t.Fatalf("child of round %d ended by itself: %v\n%s", round, err, stderr.String())
	}
}

func openCrashDB(t *testing.T, dir string) (*embedded.Queue, *embedded.Timer) {
	t.Helper()
	ctx := context.Background()
	db := open(t, embedded.Options{Dir: dir})
	q, err := embedded.OpenQueue(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []queue.Config{
		{Name: "q", Type: queue.FIFO, Concurrency: 100000, Visibility: time.Hour},
		{Name: "fired", Concurrency: 100000},
	} {
		if _, err := q.Define(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	timers, err := embedded.OpenTimer(ctx, db, q)
	if err != nil {
		t.Fatal(err)
	}
	return q, timers
}

// drainCrash receives and acknowledges everything that is left, and waits for
// what is wanted.
func drainCrash(t *testing.T, q *embedded.Queue, name string, want map[string]bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var ids []string
	missing := maps.Clone(want)
	for {
		s, err := q.Stats(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Depth+s.InFlight+len(missing) == 0 {
			return ids
		}
		ds, err := q.Receive(ctx, name, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			ids = append(ids, crashID(d.Message))
			delete(missing, crashID(d.Message))
			if _, err := q.Ack(ctx, name, d.Receipt).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func crashID(m queue.Message) string { return strings.Trim(string(m.Data), `"`) }

func crashNumber(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndexByte(id, '/')+1:])
	if err != nil {
		panic(err) // made by the test itself
	}
	return n
}

// crashHeld names messages that are never acknowledged; each blocks a group of
// its own.
func crashHeld(id string) bool { return crashNumber(id)%5 == 0 }

func crashGroup(n int) string {
	if n%5 == 0 {
		return fmt.Sprint("held", n)
	}
	return fmt.Sprint("g", n%7)
}
