package session

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/iii-aws/harness/engine/bus"
)

// maxNesting is the longest path that the nested form shows. Each entry costs
// two levels of JSON, and readers give up at 10,000.
const maxNesting = 4000

type nestedRequest struct {
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r nestedRequest) Validate() error { return validID("session_id", r.SessionID) }

// nested is the tree below its first root: {entry, children}, children oldest
// first.
func (s *Session) nested(ctx context.Context, call *bus.Call, r nestedRequest) (json.RawMessage, error) {
	_, t, err := s.source(ctx, call, r.SessionID)
	if err != nil {
		return nil, err
	}
	children := make(map[string][]int, len(t.entries))
	root := -1
	for i, e := range t.entries {
		if e.parent() == "" && root < 0 {
			root = i
		}
		children[e.parent()] = append(children[e.parent()], i)
	}
	if root < 0 {
		return nil, &Error{Kind: EntryNotFound, Session: r.SessionID, Detail: "the tree has no root"}
	}
	// A session may be thousands of entries deep, so this keeps its own stack.
	type frame struct {
		left []int
		more bool
	}
	var out bytes.Buffer
	begin := func(i int) frame {
		out.WriteString(`{"entry":`)
		out.Write(encode(t.entries[i]))
		out.WriteString(`,"children":[`)
		return frame{left: children[t.entries[i].ID]}
	}
	stack := []frame{begin(root)}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.left) == 0 {
			out.WriteString("]}")
			stack = stack[:len(stack)-1]
			continue
		}
		if len(stack) >= maxNesting {
			return nil, &Error{Kind: TooLarge, Session: r.SessionID,
				Detail: "a path of more than " + strconv.Itoa(maxNesting) + " entries; read it by session-tree::messages"}
		}
		if top.more {
			out.WriteByte(',')
		}
		next := top.left[0]
		top.left, top.more = top.left[1:], true
		stack = append(stack, begin(next))
	}
	return out.Bytes(), nil
}
