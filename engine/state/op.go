package state

import "encoding/json"

// Op is one operation of an update, in the form of the wire. The rules are
// those of Apply.
type Op struct {
	Type string `json:"type"`
	// Path is a string, or for merge and append an array of literal keys.
	Path  json.RawMessage `json:"path,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	By    json.RawMessage `json:"by,omitempty"`
}

// OpError is an op that was skipped.
type OpError struct {
	OpIndex int    `json:"op_index"`
	Code    string `json:"code"`
	Message string `json:"message"`
	DocURL  string `json:"doc_url,omitempty"`
}
