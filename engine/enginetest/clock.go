package enginetest

import (
	"regexp"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
)

// RunClock checks a clock. Elapse lets at least d of its time pass: a fake
// clock is advanced, a real one waited for.
func RunClock(t *testing.T, newClock func(t *testing.T) (c clock.Clock, elapse func(d time.Duration))) {
	t.Run("Time goes on", func(t *testing.T) {
		c, elapse := newClock(t)
		wall, mono := c.Now(), c.Monotonic()
		elapse(5 * time.Millisecond)
		if d := c.Monotonic() - mono; d < 5*time.Millisecond {
			t.Errorf("monotonic time went on by %v, want 5ms or more", d)
		}
		if !c.Now().After(wall) {
			t.Errorf("the wall clock stands at %v", wall)
		}
	})
	t.Run("A timer fires once, not early", func(t *testing.T) {
		c, elapse := newClock(t)
		start := c.Monotonic()
		timer := c.NewTimer(10 * time.Millisecond)
		elapse(10 * time.Millisecond)
		<-timer.C()
		if d := c.Monotonic() - start; d < 10*time.Millisecond {
			t.Errorf("fired after %v, want 10ms or more", d)
		}
		elapse(10 * time.Millisecond)
		select {
		case <-timer.C():
			t.Error("fired twice")
		default:
		}
		if timer.Stop() {
			t.Error("a timer that has fired was stopped")
		}
	})
	t.Run("A timer of no time fires at once", func(t *testing.T) {
		c, _ := newClock(t)
		for _, d := range []time.Duration{0, -time.Hour} {
			<-c.NewTimer(d).C()
		}
	})
	t.Run("A stopped timer does not fire", func(t *testing.T) {
		c, elapse := newClock(t)
		timer := c.NewTimer(10 * time.Millisecond)
		if !timer.Stop() {
			return // a busy machine: it fired first
		}
		elapse(20 * time.Millisecond)
		select {
		case <-timer.C():
			t.Error("a stopped timer fired")
		default:
		}
	})
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// RunIDs checks a source of ids.
func RunIDs(t *testing.T, newIDs func(t *testing.T) clock.IDs) {
	t.Run("UUIDs are of version 4 and differ", func(t *testing.T) {
		ids, seen := newIDs(t), map[string]bool{}
		for range 1000 {
			id := ids.UUID()
			if !uuidForm.MatchString(id) || seen[id] {
				t.Fatalf("got %q, seen before: %v", id, seen[id])
			}
			seen[id] = true
		}
	})
	t.Run("Bytes are filled whole and differ", func(t *testing.T) {
		ids, seen := newIDs(t), map[string]bool{}
		for range 100 {
			p := make([]byte, 33)
			if n, err := ids.Read(p); n != len(p) || err != nil || seen[string(p)] {
				t.Fatalf("got %d bytes, error %v, seen before: %v", n, err, seen[string(p)])
			}
			seen[string(p)] = true
		}
		if n, err := ids.Read(nil); n != 0 || err != nil {
			t.Errorf("nothing to fill gave %d, %v", n, err)
		}
	})
	t.Run("It serves many at once", func(t *testing.T) {
		ids, out := newIDs(t), make(chan string, 64)
		for range 64 {
			go func() { out <- ids.UUID() }()
		}
		seen := map[string]bool{}
		for range 64 {
			id := <-out
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
		}
	})
}
