package clock

import (
	"sort"
	"sync"
	"time"
)

// Fake is a clock that moves only when told to. Timers fire inside Advance, in
// the order of their time.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	mono   time.Duration
	timers []*fakeTimer
	added  chan struct{}
}

// NewFake starts at the given wall time.
func NewFake(now time.Time) *Fake {
	return &Fake{now: now, added: make(chan struct{})}
}

// Now is the fake wall time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Monotonic is the sum of all advances.
func (f *Fake) Monotonic() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mono
}

// NewTimer fires when the clock was advanced by d.
func (f *Fake) NewTimer(d time.Duration) Timer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{clock: f, at: f.mono + d, c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- f.now
		return t
	}
	f.timers = append(f.timers, t)
	close(f.added)
	f.added = make(chan struct{})
	return t
}

// Advance moves wall and monotonic time and fires what is due.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mono += d
	f.now = f.now.Add(d)
	sort.SliceStable(f.timers, func(i, j int) bool { return f.timers[i].at < f.timers[j].at })
	rest := f.timers[:0]
	for _, t := range f.timers {
		if t.at > f.mono {
			rest = append(rest, t)
			continue
		}
		t.c <- f.now
	}
	f.timers = rest
}

// Jump moves the wall clock alone, as an operator or NTP would.
func (f *Fake) Jump(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// Waiting is the number of timers that have not fired.
func (f *Fake) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.timers)
}

// BlockUntil returns when at least n timers wait.
func (f *Fake) BlockUntil(n int) {
	for {
		f.mu.Lock()
		if len(f.timers) >= n {
			f.mu.Unlock()
			return
		}
		c := f.added
		f.mu.Unlock()
		<-c
	}
}

type fakeTimer struct {
	clock *Fake
	at    time.Duration
	c     chan time.Time
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	for i, o := range t.clock.timers {
		if o == t {
			t.clock.timers = append(t.clock.timers[:i], t.clock.timers[i+1:]...)
			return true
		}
	}
	return false
}
