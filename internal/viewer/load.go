package viewer

import (
	"context"
	"time"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/stream"
)

// load reads the rows and serves those that nobody in this process serves yet.
// fromStart: their viewers were there before the message being streamed began.
func (s *session) load(ctx context.Context, fromStart bool) error {
	for {
		gen := s.generation()
		rows, err := s.hub.rows(ctx, s.id)
		if err != nil {
			return err
		}
		all, err := s.hub.rows(ctx, "")
		if err != nil {
			return err
		}
		head, err := s.look(ctx)
		if err != nil {
			return err
		}
		if rows, err = s.merge(ctx, rows, all, head); err != nil {
			return err
		}
		if s.attachAll(gen, rows, fromStart) {
			return nil
		}
	}
}

func (s *session) generation() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// attachAll makes the pumps of rows; it reports false if subscriptions have
// changed since the generation that the rows were read in.
func (s *session) attachAll(gen int64, rows []stored, fromStart bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen != gen {
		return false
	}
	for _, r := range rows {
		// What is being changed is attached by who changes it.
		if !s.hub.isChanging(r.Row) {
			s.attach(r.Row, fromStart)
		}
	}
	return true
}

// attach makes the pump of a row, unless there is one, and wakes it. The caller
// holds mu.
func (s *session) attach(r Row, fromStart bool) {
	if now := s.pumps[r.key()]; now != nil {
		if now.row.ID == r.ID {
			return
		}
		now.gone = true
	}
	p := &pump{s: s, row: r, eventsOnly: r.All, at: spot{next: r.NextSeq}, saved: r.NextSeq}
	if r.Epoch != "" && s.head.Epoch != "" && r.Epoch != s.head.Epoch {
		p.at.next, p.logs = 0, 1
	}
	if s.draft != nil && !fromStart {
		p.at.draft, p.at.join = s.draft, joins
	}
	s.pumps[r.key()] = p
	p.wake()
}

// merge joins the rows of the session with those of viewers of all sessions:
// it adds those that may see it, and takes out the places of those that have
// left. Who also watches the session by itself is served once.
func (s *session) merge(ctx context.Context, rows, all []stored, head stream.Head) ([]stored, error) {
	everywhere, direct := map[string]string{}, map[string]bool{}
	for _, r := range all {
		everywhere[r.key()] = r.ID
	}
	for _, r := range rows {
		direct[r.key()] = true
	}
	var out []stored
	placed := map[string]bool{}
	for _, r := range rows {
		parent := r.parent().key()
		switch {
		case !r.All:
		case everywhere[parent] != r.ID:
			if err := s.hub.remove(ctx, r.Row); err != nil {
				return nil, err
			}
			continue
		case direct[parent]:
			continue
		default:
			placed[parent] = true
		}
		out = append(out, r)
	}
	sees := s.audience()
	for _, r := range all {
		s.hub.keep(ctx, r)
		if placed[r.key()] || direct[r.key()] {
			continue
		}
		ok, err := sees(ctx, r.Row)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		r.Row = r.within(s.id)
		if r.NextSeq, err = s.first(ctx, r.AtMS, head); err != nil {
			return nil, err
		}
		r.Epoch = head.Epoch
		out = append(out, r)
	}
	return out, nil
}

// audience tells who may see the session. It reads the owner once, and only if
// it matters.
func (s *session) audience() func(context.Context, Row) (bool, error) {
	owner, known := "", false
	return func(ctx context.Context, r Row) (bool, error) {
		if r.Principal.SeesAll() {
			return true, nil
		}
		if !known {
			o, _, err := Owner(ctx, s.hub.State, s.id)
			if err != nil {
				return false, err
			}
			owner, known = o, true
		}
		return access.Sees(r.Principal, owner, s.id), nil
	}
}

// lookBack is how many events before now a viewer of all sessions may still get
// of a session that it meets for the first time.
const lookBack = 64

// first is where a viewer of all sessions starts in a session that it meets for
// the first time: at the first event since it subscribed.
func (s *session) first(ctx context.Context, sinceMS int64, head stream.Head) (int64, error) {
	since := clock.FromMillis(sinceMS)
	for seq := max(0, head.Tail+1-lookBack); seq <= head.Tail; {
		got, err := s.read(ctx, seq)
		if err != nil {
			return 0, err
		}
		for _, e := range got {
			if !e.at.Before(since.Truncate(time.Millisecond)) {
				return e.seq, nil
			}
			seq = e.seq + 1
		}
		if len(got) == 0 {
			break
		}
	}
	return head.Tail + 1, nil
}
