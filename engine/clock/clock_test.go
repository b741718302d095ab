package clock

import (
	"regexp"
	"testing"
	"time"
)

func TestMillisRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 10, 0, 0, 123e6, time.UTC)
	if got := FromMillis(Millis(at)); !got.Equal(at) {
		t.Errorf("got %v, want %v", got, at)
	}
	if !FromMillis(0).IsZero() {
		t.Error("0 is not the zero time")
	}
}

func TestSystemClock(t *testing.T) {
	t.Parallel()
	c := System()
	a, m := c.Now(), c.Monotonic()
	timer := c.NewTimer(time.Millisecond)
	<-timer.C()
	if timer.Stop() {
		t.Error("a fired timer was stopped")
	}
	if !c.Now().After(a) || c.Monotonic() <= m {
		t.Error("time stands still")
	}
	if !c.NewTimer(time.Hour).Stop() {
		t.Error("a waiting timer could not be stopped")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, ids := range []IDs{Random(), Sequence(7)} {
		a, b := ids.UUID(), ids.UUID()
		if !form.MatchString(a) || a == b {
			t.Errorf("ids %q, %q", a, b)
		}
		p, q := make([]byte, 13), make([]byte, 13)
		for _, buf := range [][]byte{p, q} {
			if n, err := ids.Read(buf); n != 13 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
		}
		if string(p) == string(q) {
			t.Error("the same bytes twice")
		}
	}
	x, y := Sequence(1), Sequence(1)
	if x.UUID() != y.UUID() {
		t.Error("the same seed gives different ids")
	}
	if Sequence(1).UUID() == Sequence(2).UUID() {
		t.Error("different seeds give the same ids")
	}
}

func TestFakeFiresInOrderAndOnTime(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := NewFake(start)
	late, early := f.NewTimer(2*time.Second), f.NewTimer(time.Second)
	if now := f.NewTimer(0); len(now.C()) != 1 {
		t.Error("a timer of 0 has not fired")
	}
	stopped := f.NewTimer(time.Second)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop is wrong")
	}
	if f.Waiting() != 2 {
		t.Errorf("waiting = %d, want 2", f.Waiting())
	}
	f.Advance(time.Second)
	if len(early.C()) != 1 || len(late.C()) != 0 {
		t.Error("the wrong timer fired")
	}
	f.Jump(time.Hour)
	if len(late.C()) != 0 || f.Monotonic() != time.Second {
		t.Error("a jump of the wall clock moved monotonic time")
	}
	f.Advance(time.Second)
	if got := <-late.C(); !got.Equal(start.Add(time.Hour + 2*time.Second)) {
		t.Errorf("fired at %v", got)
	}
}

func TestFakeBlockUntil(t *testing.T) {
	t.Parallel()
	f := NewFake(time.Unix(0, 0))
	done := make(chan struct{})
	go func() {
		f.BlockUntil(2)
		close(done)
	}()
	f.NewTimer(time.Second)
	select {
	case <-done:
		t.Fatal("one timer is not two")
	default:
	}
	f.NewTimer(time.Second)
	<-done
}
