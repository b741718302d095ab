package step

import (
	"sort"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// Outbox is what the record's writes owe to the world.
type Outbox struct {
	// Base is the tail of the event log when the oldest event was made.
	Base  int64  `json:"base"`
	Items []Item `json:"items"`
	// Held is what items point at and the record has no copy of any more.
	Held map[string]Value `json:"held,omitempty"`
}

// IsZero reports whether nothing is owed.
func (o Outbox) IsZero() bool { return len(o.Items) == 0 }

// Kind is what an item does when it is delivered.
type Kind string

// The kinds of an item, in the order of delivery within one write.
const (
	KindEntry Kind = "entry"
	KindRow   Kind = "row"
	KindCall  Kind = "call"
	KindEvent Kind = "event"
	KindWake  Kind = "wake"
	KindTimer Kind = "timer"
)

var order = map[Kind]int{KindEntry: 0, KindRow: 1, KindCall: 1, KindEvent: 2, KindWake: 3, KindTimer: 3}

// Item is one thing that is owed. Which members count depends on Kind.
type Item struct {
	Kind Kind `json:"kind"`
	// ID is unique in the outbox and equal for every delivery: the entry id,
	// the event id, or the kind with its key.
	ID string `json:"id"`

	// Entry: what to append, and behind which entry; an empty parent is the
	// session's active leaf.
	Source string `json:"source,omitempty"`
	Parent string `json:"parent,omitempty"`

	// Row. Value absent deletes it; Create leaves a row that exists.
	Scope  string `json:"scope,omitempty"`
	Key    string `json:"key,omitempty"`
	Value  Value  `json:"value,omitzero"`
	Create bool   `json:"create,omitempty"`

	// Call: a function with Value as its payload. BestEffort calls are not
	// repeated when they fail.
	// Late ones come behind the events.
	FunctionID string `json:"function_id,omitempty"`
	BestEffort bool   `json:"best_effort,omitempty"`
	Late       bool   `json:"late,omitempty"`

	Event *Event `json:"event,omitempty"`

	// Wake and timer: the cause. A timer without AtMS is cancelled.
	Cause string `json:"cause,omitempty"`
	Timer string `json:"timer,omitempty"`
	AtMS  int64  `json:"at_ms,omitempty"`
}

func (it Item) order() int {
	if it.Late {
		return order[KindWake]
	}
	return order[it.Kind]
}

// emit owes an event.
func (r *Record) emit(e Event) {
	r.EventSeq++
	r.fresh = append(r.fresh, Item{Kind: KindEvent, ID: EventID(r.Run, r.EventSeq), Event: &e})
}

// owe adds an item that is no event.
func (r *Record) owe(it Item) { r.fresh = append(r.fresh, it) }

// append owes a transcript entry behind the last one.
func (r *Record) append(id, source string) {
	r.owe(Item{Kind: KindEntry, ID: id, Source: source, Parent: r.LeafID})
	r.LeafID = id
}

// createRow owes a row unless there is one.
func (r *Record) createRow(scope, key string, v any) {
	r.owe(Item{Kind: KindRow, ID: "row:" + scope + "/" + key, Scope: scope, Key: key, Value: Of(v), Create: true})
}

// setRow owes a row.
func (r *Record) setRow(scope, key string, v any) {
	r.owe(Item{Kind: KindRow, ID: "row:" + scope + "/" + key, Scope: scope, Key: key, Value: Of(v)})
}

// deleteRow owes the removal of a row.
func (r *Record) deleteRow(scope, key string) {
	r.owe(Item{Kind: KindRow, ID: "unrow:" + scope + "/" + key, Scope: scope, Key: key})
}

// call owes a call; what tells it from others of the function.
func (r *Record) call(functionID, what string, payload any, bestEffort bool) {
	r.owe(Item{Kind: KindCall, ID: "call:" + functionID + "/" + what, FunctionID: functionID, Value: Of(payload), BestEffort: bestEffort})
}

// setTimer owes a timer whose message wakes the turn.
func (r *Record) setTimer(id string, at int64) {
	r.owe(Item{Kind: KindTimer, ID: "timer:" + id, Timer: id, AtMS: at, Cause: "timer:" + id})
}

// cancelTimer owes the end of a timer.
func (r *Record) cancelTimer(id string) {
	r.owe(Item{Kind: KindTimer, ID: "untimer:" + id, Timer: id})
}

// Pending reports whether something was emitted since the last Seal.
func (r *Record) Pending() bool { return len(r.fresh) > 0 }

// Seal puts what was emitted since the last write behind what is owed already
// and returns it, in the order of delivery; agent_end comes last of the
// events. Tail is the last known tail of the event log.
func (r *Record) Seal(tail int64) []Item {
	fresh := r.fresh
	r.fresh = nil
	sort.SliceStable(fresh, func(i, j int) bool {
		a, b := fresh[i], fresh[j]
		if x, y := a.order(), b.order(); x != y {
			return x < y
		}
		return a.Kind == KindEvent && a.Event.Type != agent.EventAgentEnd && b.Event.Type == agent.EventAgentEnd
	})
	if !r.OwesEvents() {
		r.Outbox.Base = tail
	}
	r.Outbox.Items = append(r.Outbox.Items, fresh...)
	return fresh
}

// OwesEvents reports whether an event is owed.
func (r *Record) OwesEvents() bool {
	for _, it := range r.Outbox.Items {
		if it.Kind == KindEvent {
			return true
		}
	}
	return false
}

// Delivered takes items out by their ids and forgets what only they needed.
func (r *Record) Delivered(ids map[string]bool) {
	rest := r.Outbox.Items[:0:0]
	for _, it := range r.Outbox.Items {
		if !ids[it.ID] {
			rest = append(rest, it)
		}
	}
	r.Outbox.Items = rest
	needed := r.needed()
	for key := range r.Outbox.Held {
		if !needed[key] {
			delete(r.Outbox.Held, key)
		}
	}
	rm := r.Messages[:0:0]
	for _, m := range r.Messages {
		if needed["m:"+m.EntryID] {
			rm = append(rm, m)
		}
	}
	r.Messages = rm
}

// needed is the sources that the items owed point at.
func (r *Record) needed() map[string]bool {
	out := map[string]bool{}
	for _, items := range [2][]Item{r.Outbox.Items, r.fresh} {
		for _, it := range items {
			for _, s := range it.sources() {
				out[s] = true
				if id, ok := strings.CutPrefix(s, "r:"); ok {
					out["f:"+id] = true
				}
			}
		}
	}
	return out
}

func (it Item) sources() []string {
	if it.Event != nil {
		return it.Event.sources()
	}
	if it.Source != "" {
		return []string{it.Source}
	}
	return nil
}

// hold keeps what the items owed need of one kind of source ("a:", "f:", "r:",
// "m:"), because the record's own copy is about to go.
func (r *Record) hold(kind string) {
	for source := range r.needed() {
		if !strings.HasPrefix(source, kind) {
			continue
		}
		if r.kept(source) {
			continue
		}
		if v, ok := r.Resolve(source); ok {
			r.keep(source, v)
		}
	}
}

// kept reports whether a source does not depend on the record's own copies.
// The transcript's result stands in for the target's own.
func (r *Record) kept(source string) bool {
	_, ok := r.Outbox.Held[source]
	if id, result := strings.CutPrefix(source, "r:"); result && !ok {
		_, ok = r.Outbox.Held["f:"+id]
	}
	return ok
}

func (r *Record) keep(source string, v Value) {
	if r.Outbox.Held == nil {
		r.Outbox.Held = map[string]Value{}
	}
	r.Outbox.Held[source] = v
}

// Wakes is the ids of the wakes that are owed.
func (r *Record) Wakes() map[string]bool {
	out := map[string]bool{}
	for _, it := range r.Outbox.Items {
		if it.Kind == KindWake {
			out[it.ID] = true
		}
	}
	return out
}

// OwesCall reports whether a call of a function is owed.
func (r *Record) OwesCall(functionID string) bool {
	for _, it := range r.Outbox.Items {
		if it.Kind == KindCall && it.FunctionID == functionID {
			return true
		}
	}
	return false
}

// Owes reports whether a row is owed.
func (r *Record) Owes(scope, key string) bool {
	for _, it := range r.Outbox.Items {
		if it.Kind == KindRow && it.Scope == scope && it.Key == key {
			return true
		}
	}
	return false
}
