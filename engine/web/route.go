package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/trigger"
)

// Limits of a route.
const (
	maxPath       = 2048
	maxSegments   = 64
	maxMiddleware = 16
)

// Own is the first segment of the server's own paths, which no route may have.
const Own = "_harness"

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// config is that of a trigger.
type config struct {
	Path       string   `json:"api_path,omitempty"`
	Method     string   `json:"http_method,omitempty"`
	Condition  string   `json:"condition_function_id,omitempty"`
	Middleware []string `json:"middleware_function_ids,omitempty"`
}

// segment is a literal or a parameter of a path.
type segment struct {
	text  string
	param bool
}

// route is a binding as it is served.
type route struct {
	binding trigger.Binding
	config
	segments []segment
}

// readRoute reads the config of a binding.
func readRoute(b trigger.Binding) (*route, error) {
	r := &route{binding: b}
	detail := input.Read(b.Config, &r.config)
	if input.Describe(b.Config) == "null" {
		detail = "invalid type: null, expected an object"
	}
	if detail != "" {
		return nil, refused("Failed to parse trigger config: " + detail)
	}
	if r.Path == "" {
		return nil, refused("api_path is required for http triggers")
	}
	if r.Method = strings.ToUpper(r.Method); r.Method == "" {
		r.Method = http.MethodGet
	}
	if !slices.Contains(methods, r.Method) {
		return nil, refused("http_method must be one of " + strings.Join(methods, ", "))
	}
	if len(r.Middleware) > maxMiddleware || slices.Contains(r.Middleware, "") {
		return nil, refused("middleware_function_ids must be at most 16 ids of functions")
	}
	var err error
	r.segments, err = parsePath(r.Path)
	return r, err
}

// parsePath reads a path, with or without the slash that it begins with.
func parsePath(path string) ([]segment, error) {
	if len(path) > maxPath || strings.ContainsAny(path, "?#\\") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, refused("api_path must be a path of at most 2048 bytes, without query, fragment and control characters")
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) > maxSegments {
		return nil, refused("api_path must have at most 64 segments")
	}
	segments := make([]segment, len(parts))
	names := map[string]bool{}
	for i, part := range parts {
		name, param := strings.CutPrefix(part, ":")
		switch {
		case param && (!isName(name) || names[name]):
			return nil, refused("the parameters of api_path must have different names of letters, digits and underscores")
		case !param && (part == "." || part == ".." || part == "" && i < len(parts)-1):
			return nil, refused("the segments of api_path must not be empty, . or ..")
		case !param && i == 0 && part == Own:
			return nil, refused("api_path must not begin with " + Own + ", which is the server's own")
		}
		segments[i] = segment{part, param}
		if param {
			names[name] = true
			segments[i].text = name
		}
	}
	return segments, nil
}

func isName(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "_abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// sameNames reports whether two routes of one shape name their parameters alike.
func (r *route) sameNames(other *route) bool { return slices.Equal(r.segments, other.segments) }

func refused(message string) error {
	return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: message}
}
