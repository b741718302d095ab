package session

import (
	"encoding/json"
	"errors"
	"log/slog"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// attempts is how often a lost race is run again. Each round has a winner, so
// that as many writers of one session may meet.
const attempts = 32

// Deps is what a Session needs.
type Deps struct {
	State  state.Store
	Clock  clock.Clock
	IDs    clock.IDs
	Logger *slog.Logger
}

// Session is the worker.
type Session struct{ Deps }

// New makes the worker.
func New(d Deps) (*Session, error) {
	if d.State == nil || d.Clock == nil || d.IDs == nil {
		return nil, errors.New("session: State, Clock and IDs are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Session{d}, nil
}

// Endpoints is the functions of the worker. Each takes the bare object or an
// HTTP-like {body: {...}}.
func (s *Session) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"session-tree::create":       bus.Unwrapped(bus.Typed(s.create)),
		"session-tree::ensure":       bus.Unwrapped(bus.Typed(s.ensure)),
		"session-tree::append":       bus.Unwrapped(bus.Typed(s.append)),
		"session-tree::append_batch": bus.Unwrapped(bus.Typed(s.appendBatch)),
		"session-tree::messages":     bus.Unwrapped(bus.Typed(s.messages)),
		"session-tree::list":         bus.Unwrapped(bus.Typed(s.list)),
		"session-tree::touch":        bus.Unwrapped(bus.Typed(s.touch)),

		"session-tree::fork":             bus.Unwrapped(bus.Typed(s.fork)),
		"session-tree::clone":            bus.Unwrapped(bus.Typed(s.clone)),
		"session-tree::tree":             bus.Unwrapped(bus.Typed(s.nested)),
		"session-tree::compact":          bus.Unwrapped(bus.Typed(s.compact)),
		"session-tree::compactions":      bus.Unwrapped(bus.Typed(s.compactions)),
		"session-tree::reconcile":        bus.Unwrapped(bus.Typed(s.reconcile)),
		"session-tree::append_synthetic": bus.Unwrapped(bus.Typed(s.appendSynthetic)),
		"session-tree::update_part":      bus.Unwrapped(bus.Typed(s.updatePart)),
		"session-tree::update_parts":     bus.Unwrapped(bus.Typed(s.updateParts)),

		"session-inbox::push":  bus.Unwrapped(bus.Typed(s.push)),
		"session-inbox::peek":  bus.Unwrapped(bus.Typed(s.peek)),
		"session-inbox::drain": bus.Unwrapped(bus.Typed(s.drain)),
	}
}

func (s *Session) now() int64 { return clock.Millis(s.Clock.Now()) }

// maxID is the longest id of a session, an entry or an item, in bytes.
const maxID = 128

// validID checks an id that becomes a part of keys.
func validID(field, id string) error {
	if id == "" {
		return bus.Missing(field)
	}
	if len(id) > maxID {
		return bus.Invalid(field, "at most 128 bytes")
	}
	for _, r := range id {
		if r == '/' || !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return bus.Invalid(field, "printable characters without a slash")
		}
	}
	return nil
}

func encode(v any) json.RawMessage {
	b, err := bus.Encode(v)
	if err != nil {
		panic("session: " + err.Error()) // the stored types always encode
	}
	return b
}
