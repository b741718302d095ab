package viewer

import (
	"context"
	"errors"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

// pump posts the events and deltas of a session to one connection. While it has
// work it runs on a goroutine of its own; at rest it costs its memory alone.
type pump struct {
	s   *session
	row Row
	// eventsOnly: it gets no deltas.
	eventsOnly bool

	// What follows is guarded by session.mu.
	at      spot
	running bool
	gone    bool
	// woken: it was woken since the push it is at was begun.
	woken bool
	// saved is the next event as the stored row has it, logs and savedLogs
	// count the logs that were begun anew.
	saved           int64
	logs, savedLogs int
	// single: pushes of several events were too large for the connection.
	single bool
}

// The pauses of a pump after failures double up to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 4 * time.Second
)

// wake makes the pump look for work. The caller holds session.mu.
func (p *pump) wake() {
	p.woken = true
	if p.running || p.gone {
		return
	}
	p.s.hub.hold(p.s)
	p.running = p.s.hub.start("pump", p.run)
	if !p.running {
		p.s.hub.release(p.s)
	}
}

// rest marks the pump as having no work. The caller holds session.mu.
func (p *pump) rest() {
	p.running = false
	p.s.changed()
}

// run posts until there is nothing left.
func (p *pump) run() {
	s, h := p.s, p.s.hub
	defer h.release(s)
	ended := false
	defer func() {
		if !ended { // it panics
			p.drop()
		}
	}()
	err := p.drain(h.base)
	switch {
	case err == nil:
	case errors.Is(err, errEnded):
		p.stop()
	case p.final(err):
		h.evict(h.base, p.row, err)
		p.drop()
	default:
		if h.base.Err() == nil {
			h.Logger.Warn("viewer lags behind", "session", s.id, "browser", p.row.BrowserID, "error", err)
		}
		p.stop()
	}
	ended = true
	if p.unsaved() {
		p.save(h.base)
	}
}

// final reports whether an error ends a subscription.
func (p *pump) final(err error) bool {
	return errors.Is(err, bus.ErrGone) || errors.Is(err, errUnfit) || errors.Is(err, bus.ErrNotRegistered) && !p.young()
}

// young reports whether the connection may still register what it subscribed
// with.
func (p *pump) young() bool {
	h := p.s.hub
	return h.Clock.Now().Before(clock.FromMillis(p.row.AtMS).Add(h.RegisterGrace))
}

// drop ends the pump.
func (p *pump) drop() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.gone = true
	if key := p.row.key(); p.s.pumps[key] == p {
		delete(p.s.pumps, key)
	}
	p.rest()
}

// stop puts the pump to rest although it has work: the next wake goes on, also
// one that came while the last try was failing.
func (p *pump) stop() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.rest()
	if p.woken {
		p.wake()
	}
}

// drain posts until there is nothing left, and tries again what fails for no
// final reason. It returns nil with the pump at rest. Errors: final ones, and
// the last one if it gave up or ctx ended.
func (p *pump) drain(ctx context.Context) error {
	for tries := 0; ; {
		err := p.once(ctx)
		switch {
		case errors.Is(err, errAtRest):
			return nil
		case err == nil:
			tries = 0
			continue
		case p.final(err), errors.Is(err, errEnded), ctx.Err() != nil, tries >= p.s.hub.Retries:
			return err
		}
		pause := min(firstPause<<tries, longestPause)
		if errors.Is(err, bus.ErrNotRegistered) {
			pause = firstPause
		} else {
			tries++
		}
		t := p.s.hub.Clock.NewTimer(pause)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// once makes one push, and remembers that it was made.
func (p *pump) once(ctx context.Context) error {
	b, err := p.collect(ctx)
	if err != nil {
		return err
	}
	err = p.push(ctx, b)
	if errors.Is(err, bus.ErrTooLarge) {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		p.single = true
		return nil
	}
	if err != nil {
		return err
	}
	p.commit(b)
	return nil
}

// commit takes over where a push leads, unless the log was begun anew since.
func (p *pump) commit(b collected) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.logs == b.logs {
		p.at = b.at
	}
}

// unsaved reports whether the stored row is behind and no step will store it.
func (p *pump) unsaved() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.step == nil && p.moved()
}

// moved reports whether a pump at rest is ahead of its stored row. The caller
// holds session.mu.
func (p *pump) moved() bool {
	return !p.gone && !p.running && (p.at.next != p.saved || p.logs != p.savedLogs)
}

// save stores how far the pump got. A row that cannot be stored is stored by
// the next save.
func (p *pump) save(ctx context.Context) {
	s := p.s
	s.mu.Lock()
	row, logs := p.row, p.logs
	row.NextSeq, row.Epoch = p.at.next, s.head.Epoch
	s.mu.Unlock()
	if err := s.hub.advance(ctx, row); err != nil {
		if ctx.Err() == nil {
			s.hub.Logger.Warn("subscription not stored", "session", s.id, "browser", row.BrowserID, "error", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.saved, p.savedLogs = row.NextSeq, logs
}
