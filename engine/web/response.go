package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// Limits of the headers of an answer, in headers and in bytes of all together.
const (
	maxHeaders     = 100
	maxHeaderBytes = 64 << 10
)

// response is what a function or a middleware returns as the answer.
type response struct {
	StatusCode *int            `json:"status_code,omitempty"`
	Headers    json.RawMessage `json:"headers,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
}

// reply is an answer that may be sent.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// readReply reads a returned response. The error is invalid_response.
func readReply(result json.RawMessage) (*reply, error) {
	var res response
	if detail := input.Read(result, &res); detail != "" {
		return nil, invalid(detail)
	}
	out := &reply{status: http.StatusOK, header: http.Header{}}
	if res.StatusCode != nil {
		out.status = *res.StatusCode
	}
	if !isStatus(out.status) {
		return nil, invalid(fmt.Sprintf("status_code must be 200 to 599, not %d", out.status))
	}
	if err := readHeaders(res.Headers, out.header); err != nil {
		return nil, err
	}
	kind := out.header.Get("Content-Type")
	var text string
	switch {
	case res.Body == nil:
		out.body = []byte("{}")
	case kind != "" && !isJSON(kind) && json.Unmarshal(res.Body, &text) == nil:
		out.body = []byte(text)
		return out, nil
	default:
		out.body = res.Body
	}
	if kind == "" {
		out.header.Set("Content-Type", "application/json")
	}
	return out, nil
}

func isStatus(code int) bool { return code >= 200 && code <= 599 }

func invalid(detail string) error {
	return &bus.Error{Code: protocol.CodeInvalidResponse, Message: "The response is not one: " + detail}
}

// notTheirs are the headers that only the connection sets.
var notTheirs = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Transfer-Encoding": true, "Content-Length": true, "Upgrade": true, "Trailer": true, "Te": true,
	"Proxy-Connection": true,
}

// readHeaders adds headers: a map whose values are texts, numbers, booleans or lists of them, or a list of "Name: value".
// Those that are the connection's are left out.
func readHeaders(raw json.RawMessage, to http.Header) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	pairs, err := headerPairs(raw)
	if err != nil {
		return err
	}
	fresh := http.Header{}
	size := 0
	for _, p := range pairs {
		name := http.CanonicalHeaderKey(p[0])
		if !isToken(p[0]) || strings.ContainsFunc(p[1], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return invalid("a header has a name or a value that HTTP does not allow")
		}
		if size += len(p[0]) + len(p[1]); size > maxHeaderBytes {
			return invalid(fmt.Sprintf("the headers have more than %d bytes", maxHeaderBytes))
		}
		if !notTheirs[name] {
			fresh.Add(name, p[1])
		}
	}
	for name, values := range fresh {
		to[name] = values
	}
	if len(to) > maxHeaders || len(pairs) > maxHeaders {
		return invalid(fmt.Sprintf("there are more than %d headers", maxHeaders))
	}
	return nil
}

// headerPairs is the names and values of headers as they were written.
func headerPairs(raw json.RawMessage) ([][2]string, error) {
	var pairs [][2]string
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		for _, line := range lines {
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				return nil, invalid("a header of the list has no colon")
			}
			pairs = append(pairs, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
		return pairs, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil, invalid("headers must be a map or a list of texts")
	}
	for name, raw := range members {
		values := []json.RawMessage{raw}
		if raw[0] == '[' && json.Unmarshal(raw, &values) != nil {
			return nil, invalid("a header is no text")
		}
		for _, v := range values {
			text, ok := scalar(v)
			if !ok {
				return nil, invalid("a header is no text")
			}
			pairs = append(pairs, [2]string{name, text})
		}
	}
	return pairs, nil
}

// scalar is a text, a number or a boolean as a header has it.
func scalar(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return strings.TrimSpace(text), true
	}
	return string(raw), !bytes.ContainsAny(raw[:1], `{[n`)
}

// isToken reports whether a name is one of a header.
func isToken(name string) bool {
	const chars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
	return name != "" && strings.Trim(strings.ToLower(name), chars) == ""
}
