package web

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/channel"
)

// maxDepth is how deep the JSON of a body may nest, so that it fits a frame with what is around it.
const maxDepth = 900

// payload is what a function gets.
type payload struct {
	Query      map[string]string `json:"query_params"`
	PathParams map[string]string `json:"path_params"`
	Headers    map[string]string `json:"headers"`
	Path       string            `json:"path"`
	Method     string            `json:"method"`
	Body       json.RawMessage   `json:"body"`
	Trigger    firedBy           `json:"trigger"`
	// RequestBody and Response are absent where there are no channels.
	RequestBody *channel.Ref `json:"request_body,omitempty"`
	Response    *channel.Ref `json:"response,omitempty"`
}

// firedBy names the route.
type firedBy struct {
	Type   string `json:"type"`
	Path   string `json:"path"`
	Method string `json:"method"`
}

// preHandler is what middleware gets.
type preHandler struct {
	Phase   string            `json:"phase"`
	Request preHandlerOf      `json:"request"`
	Context map[string]string `json:"context"`
}

type preHandlerOf struct {
	PathParams map[string]string `json:"path_params"`
	Query      map[string]string `json:"query_params"`
	Headers    map[string]string `json:"headers"`
	Method     string            `json:"method"`
}

// newPayload is the payload of a request, without its body.
func newPayload(r *http.Request, found *route, params map[string]string) payload {
	return payload{
		Query: queryOf(r.URL), PathParams: params, Headers: headersOf(r), Path: found.Path, Method: r.Method, Body: json.RawMessage("null"),
		Trigger: firedBy{Type: found.binding.Type, Path: found.Path, Method: found.Method},
	}
}

func (p payload) preHandler() preHandler {
	return preHandler{Phase: "preHandler", Context: map[string]string{},
		Request: preHandlerOf{PathParams: p.PathParams, Query: p.Query, Headers: p.Headers, Method: p.Method}}
}

// queryOf is the last value of each name.
func queryOf(u *url.URL) map[string]string {
	all := map[string]string{}
	for name, values := range u.Query() {
		all[name] = values[len(values)-1]
	}
	return all
}

// headersOf is the headers by their names in lower case, Host included.
func headersOf(r *http.Request) map[string]string {
	all := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		between := ", "
		if name == "Cookie" {
			between = "; "
		}
		all[strings.ToLower(name)] = strings.Join(values, between)
	}
	return all
}

// isJSON reports whether a content type is JSON.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

// parsed is a body as the function gets it: null if it is not JSON that the bus can carry.
func parsed(body []byte) json.RawMessage {
	if !utf8.Valid(body) || depth(body) > maxDepth || !json.Valid(body) {
		return json.RawMessage("null")
	}
	return body
}

// depth is how deep arrays and objects nest in JSON.
func depth(body []byte) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
