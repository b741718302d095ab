package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// maxBatch bounds one request. It may take several transactions.
const maxBatch = 1000

// node is what is to become an entry.
type node struct {
	id string
	// content is the entry, but for its id, place and time.
	content Entry
	// message is that of the content, if it is one.
	message agent.Message
	calls   []agent.Block
}

// batch is messages that hang on one another, as far as they are stored.
type batch struct {
	session string
	// parent is where the first node hangs; nil is the active leaf.
	parent *string
	// named: the caller gave the ids, so that entries may be stored already.
	named bool
	// pinned: the parent is refused once it is not the active leaf.
	pinned bool
	// moved: it was refused so.
	moved bool
	// loose: the same id is the same message, without a look.
	loose bool
	// at is the timestamp of the entries that are stored, 0 before.
	at int64
	// readTree: marks are not enough to tell a repeated call.
	readTree bool

	done  []string // ids that are stored
	nodes []node
}

// took moves the first n nodes to those that are stored.
func (b *batch) took(n int) {
	if n == 0 {
		return
	}
	for _, x := range b.nodes[:n] {
		b.done = append(b.done, x.id)
	}
	parent := b.nodes[n-1].id
	b.parent, b.nodes = &parent, b.nodes[n:]
}

// batch checks a request and reads its messages.
func (s *Session) batch(r batchRequest) (*batch, error) {
	b := &batch{session: r.SessionID, parent: r.ParentID, named: r.EntryIDs != nil, done: []string{}}
	if r.ParentID != nil && *r.ParentID == "" {
		b.parent = nil
	}
	seen := map[string]bool{}
	for i, raw := range r.Messages {
		n := node{content: Entry{Type: TypeMessage, Message: raw}}
		if err := json.Unmarshal(raw, &n.message); err != nil {
			field := fmt.Sprintf("messages[%d]", i)
			if r.single {
				field = "message"
			}
			return nil, invalidMessage(field, err)
		}
		n.calls = n.message.Calls()
		if b.named {
			n.id = r.EntryIDs[i]
		} else {
			n.id = s.IDs.UUID()
		}
		if seen[n.id] {
			return nil, bus.Invalid("entry_ids", "each id once")
		}
		seen[n.id] = true
		b.nodes = append(b.nodes, n)
	}
	return b, nil
}

// invalidMessage names the member of a message that cannot be read.
func invalidMessage(field string, err error) error {
	allowed := "a message of role user, assistant, function_result or custom"
	var m *agent.MessageError
	if errors.As(err, &m) && m.Field != "message" {
		field, allowed = field+"."+m.Field, m.Allowed
	}
	return &bus.InvalidError{Field: field, Allowed: allowed, Err: err}
}

// sameMessage compares what was said, not when or in which notation.
func sameMessage(a, b json.RawMessage) bool {
	x, okX := spoken(a)
	y, okY := spoken(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

func spoken(raw json.RawMessage) (v map[string]any, ok bool) {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	delete(v, "timestamp")
	return v, true
}
