package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

const maxToken = 128

// Group is the group of a message on a queue with config c: the message's own,
// else the text of the member that c names. A value that is no string counts by
// its JSON text. A group longer than 128 bytes is replaced by its hash. On a
// standard queue the group is empty. The error is an *InvalidError.
func Group(c Config, m Message) (string, error) {
	if c.Type != FIFO {
		return "", nil
	}
	if m.Group != "" {
		return shorten(m.Group), nil
	}
	if c.GroupField == "" {
		return "", &InvalidError{Queue: c.Name, Field: "group", Allowed: "given: the queue is fifo and names no group field"}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(m.Data, &members); err != nil {
		return "", &InvalidError{Queue: c.Name, Field: "data", Allowed: "an object with the member " + c.GroupField + ", which names the group"}
	}
	v := bytes.TrimSpace(members[c.GroupField])
	if len(v) == 0 || bytes.Equal(v, []byte("null")) {
		return "", &InvalidError{Queue: c.Name, Field: "data." + c.GroupField, Allowed: "present and not null: it names the group"}
	}
	var s string
	if v[0] == '"' && json.Unmarshal(v, &s) == nil {
		if s == "" {
			return "", &InvalidError{Queue: c.Name, Field: "data." + c.GroupField, Allowed: "a text that is not empty: it names the group"}
		}
		return shorten(s), nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, v); err != nil {
		return "", &InvalidError{Queue: c.Name, Field: "data." + c.GroupField, Allowed: "JSON"}
	}
	return shorten(compact.String()), nil
}

// DedupKey is what makes two messages of a queue the same: the message's dedup
// id, else with ContentDedup a hash of function id and data, else "".
func DedupKey(c Config, m Message) string {
	switch {
	case m.DedupID != "":
		return shorten(m.DedupID)
	case !c.ContentDedup:
		return ""
	}
	h := sha256.New()
	h.Write([]byte(m.FunctionID))
	h.Write([]byte{0})
	h.Write(m.Data)
	return hex.EncodeToString(h.Sum(nil))
}

func shorten(s string) string {
	if len(s) <= maxToken {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
