package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// maxForked is the longest path that a fork copies; a longer one becomes a
// summary.
const maxForked = 50

type forkRequest struct {
	SourceSessionID string `json:"source_session_id"`
	FromEntryID     string `json:"from_entry_id"`
}

// Validate names the first wrong field.
func (r forkRequest) Validate() error {
	if err := validID("source_session_id", r.SourceSessionID); err != nil {
		return err
	}
	return validID("from_entry_id", r.FromEntryID)
}

// fork makes a session of the path that leads to an entry of another. It
// belongs to the caller.
func (s *Session) fork(ctx context.Context, call *bus.Call, r forkRequest) (sessionResponse, error) {
	source, t, err := s.source(ctx, call, r.SourceSessionID)
	if err != nil {
		return sessionResponse{}, err
	}
	if _, ok := t.byID[r.FromEntryID]; !ok {
		return sessionResponse{}, &Error{Kind: EntryNotFound, Session: r.SourceSessionID, Detail: r.FromEntryID}
	}
	path := t.path(r.FromEntryID)
	if len(path) > maxForked {
		path = []Entry{{Timestamp: path[len(path)-1].Timestamp, Type: TypeBranchSummary,
			Summary: digest(source, path), FromID: r.FromEntryID}}
	}
	m := s.copyOf(call, source, " (fork)")
	m.BranchCount = 1
	return s.storeCopy(ctx, call, m, path)
}

type cloneRequest struct {
	SourceSessionID string `json:"source_session_id"`
}

// Validate names the first wrong field.
func (r cloneRequest) Validate() error { return validID("source_session_id", r.SourceSessionID) }

// clone makes a session of all entries of another, branches too. It belongs to
// the caller.
func (s *Session) clone(ctx context.Context, call *bus.Call, r cloneRequest) (sessionResponse, error) {
	source, t, err := s.source(ctx, call, r.SourceSessionID)
	if err != nil {
		return sessionResponse{}, err
	}
	m := s.copyOf(call, source, " (clone)")
	m.BranchCount = source.BranchCount
	return s.storeCopy(ctx, call, m, t.entries)
}

// source is a session that the caller may read, and its tree.
func (s *Session) source(ctx context.Context, call *bus.Call, id string) (Meta, tree, error) {
	m, _, err := s.open(ctx, call, id, sees)
	if err != nil {
		return Meta{}, tree{}, err
	}
	t, err := s.tree(ctx, id)
	return m, t, err
}

// copyOf is the row of a copy. The suffix survives where a name is too long.
func (s *Session) copyOf(call *bus.Call, source Meta, suffix string) Meta {
	name := source.DisplayName
	if len(name) > maxText-len(suffix) {
		name = strings.ToValidUTF8(name[:maxText-len(suffix)], "")
	}
	return s.newMeta(call, s.IDs.UUID(), createRequest{DisplayName: name + suffix, Cwd: source.Cwd})
}

// storeCopy stores entries under fresh ids, and the session's row last: until
// then there is no such session, so that half a copy is never seen.
func (s *Session) storeCopy(ctx context.Context, call *bus.Call, m Meta, entries []Entry) (sessionResponse, error) {
	entries = s.renamed(entries)
	t := treeOf(entries)
	origin := state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
	var writes []state.Write
	marked := map[string]bool{}
	for _, e := range entries {
		w := state.Set(agent.ScopeSessionTree+m.SessionID, e.ID, encode(e))
		w.Origin = origin
		writes = append(writes, w)
		message, _ := e.message()
		for _, c := range message.Calls() {
			if c.ID != "" && !marked[c.ID] {
				marked[c.ID] = true
				writes = append(writes, callMark(m.SessionID, c.ID, false))
			}
		}
	}
	h := t.head()
	m.EntryCount = h.Count
	for i := len(entries) - 1; i >= 0 && m.Summary == ""; i-- {
		if entries[i].ID == h.Leaf {
			m.Summary = entries[i].summary()
		}
	}
	writes = append(writes, h.write(m.SessionID, 0))
	for len(writes) > 0 {
		n := fitting(writes)
		if _, err := s.State.Submit(ctx, writes[:n:n]).Wait(ctx); err != nil {
			return sessionResponse{}, storage(m.SessionID, "copy", err)
		}
		writes = writes[n:]
	}
	return s.settle(ctx, call, m)
}

// renamed is the entries with fresh ids. Timestamps stay, and entries of one
// timestamp keep their order. What points at an entry that is not among them
// points nowhere, but for the place that a summary was made from.
func (s *Session) renamed(entries []Entry) []Entry {
	fresh := make(map[string]string, len(entries))
	for i, e := range entries {
		// The number keeps the order of ids that share a timestamp.
		fresh[e.ID] = fmt.Sprintf("%06d-%s", i, s.IDs.UUID())
	}
	out := make([]Entry, len(entries))
	for i, e := range entries {
		e.ID = fresh[e.ID]
		e.ParentID = renamedID(fresh, e.ParentID)
		e.TailStartID = renamedID(fresh, e.TailStartID)
		if to, ok := fresh[e.FromID]; ok && e.Type == TypeBranchSummary {
			e.FromID = to
		}
		out[i] = e
	}
	return out
}

func renamedID(fresh map[string]string, id *string) *string {
	if id == nil {
		return nil
	}
	to, ok := fresh[*id]
	if !ok {
		return nil
	}
	return &to
}

// maxCommit is the most bytes of values that go into one transaction of a copy.
const maxCommit = 2 << 20

// fitting is how many of the writes go into one transaction, at least one.
func fitting(writes []state.Write) int {
	n, size := 0, 0
	for n < len(writes) && n < state.MaxTx {
		size += len(writes[n].Value)
		if n > 0 && size > maxCommit {
			break
		}
		n++
	}
	return n
}

const (
	// digestLines and digestRunes bound what a summary quotes.
	digestLines = 50
	digestRunes = 200
)

// digest is the text of the summary that stands for a long path: where it came
// from, and what was said last.
func digest(source Meta, path []Entry) string {
	var b strings.Builder
	name := source.DisplayName
	if name == "" {
		name = source.SessionID
	}
	fmt.Fprintf(&b, "This session goes on from entry %s of %q, after %d entries.", path[len(path)-1].ID, name, len(path))
	var said []string
	for i := len(path) - 1; i >= 0 && len(said) < digestLines; i-- {
		if line := path[i].said(); line != "" {
			said = append(said, line)
		}
	}
	if len(said) > 0 {
		b.WriteString(" What was said last:")
	}
	for _, line := range slices.Backward(said) {
		b.WriteString("\n" + line)
	}
	return b.String()
}

// said is a line that quotes what a user or the assistant said, or an older
// summary; empty for all else.
func (e Entry) said() string {
	switch e.Type {
	case TypeBranchSummary, TypeCompaction:
		return cut(string(e.Type), e.Summary)
	case TypeMessage:
		m, ok := e.message()
		if !ok || (m.Role != agent.RoleUser && m.Role != agent.RoleAssistant) {
			return ""
		}
		for _, b := range m.Content {
			if b.Type == agent.BlockText && strings.TrimSpace(b.Text) != "" {
				return cut(string(m.Role), b.Text)
			}
		}
	}
	return ""
}

func cut(who, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	if r := []rune(text); len(r) > digestRunes {
		text = string(r[:digestRunes]) + "…"
	}
	return who + ": " + text
}
