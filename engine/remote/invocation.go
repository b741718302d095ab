package remote

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// Limits of an invocation object, in bytes but for the headers.
const (
	maxInvocation  = 64 << 10
	maxURL         = 2048
	maxHeaders     = 32
	maxHeaderName  = 256
	maxHeaderValue = 4096
)

// invocation is the object as a worker registers it.
type invocation struct {
	URL       string            `json:"url"`
	Method    string            `json:"method,omitempty"`
	TimeoutMS *int64            `json:"timeout_ms,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Auth      *auth             `json:"auth,omitempty"`

	target *url.URL
}

func (i *invocation) timeout() time.Duration {
	if i.TimeoutMS == nil {
		return DefaultTimeout
	}
	return time.Duration(*i.TimeoutMS) * time.Millisecond
}

// where names the server in errors: a path or a query may be secret.
func (i *invocation) where() string { return i.target.Scheme + "://" + i.target.Host }

// parse reads and judges an invocation object, but for its secret.
func (c *Caller) parse(raw json.RawMessage) (*invocation, error) {
	if len(raw) > maxInvocation {
		return nil, bus.Invalid("invocation", "at most 65536 bytes")
	}
	var i invocation
	if detail := input.Read(raw, &i); detail != "" {
		return nil, protocol.BadInput("invocation", detail)
	}
	if err := c.target(&i); err != nil {
		return nil, err
	}
	if i.Method = strings.ToUpper(i.Method); i.Method == "" {
		i.Method = http.MethodPost
	}
	switch i.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, bus.Invalid("invocation.method", "GET, POST, PUT, PATCH or DELETE")
	}
	if ms := i.TimeoutMS; ms != nil && (*ms < 1 || *ms > MaxTimeout.Milliseconds()) {
		return nil, bus.Invalid("invocation.timeout_ms", "1 to "+strconv.FormatInt(MaxTimeout.Milliseconds(), 10))
	}
	if len(i.Headers) > maxHeaders {
		return nil, bus.Invalid("invocation.headers", "at most 32")
	}
	for name, value := range i.Headers {
		if err := checkHeader("invocation.headers", name, value); err != nil {
			return nil, err
		}
	}
	return &i, c.checkAuth(i.Auth)
}

// target reads the URL.
func (c *Caller) target(i *invocation) error {
	u, err := url.Parse(i.URL)
	schemes := "an https URL"
	if c.cfg.PlainHTTP {
		schemes = "an https or http URL"
	}
	switch {
	case err != nil, len(i.URL) > maxURL, u.Opaque != "", u.Hostname() == "", u.Scheme != "https" && (u.Scheme != "http" || !c.cfg.PlainHTTP):
		return validationFailed("url must be " + schemes + " of at most 2048 bytes")
	case u.User != nil:
		return validationFailed("url must hold no user name and no password: use auth")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return validationFailed("the port of url must be 1 to 65535")
		}
	}
	u.Fragment, u.RawFragment = "", ""
	i.target = u
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return c.reach.check(addr)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return c.reach.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// owned are the headers that only the bus or the connection sets.
var owned = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true, "Upgrade": true,
	"Te": true, "Trailer": true, "Expect": true,
}

// checkHeader judges a header of the worker.
func checkHeader(field, name, value string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "", len(name) > maxHeaderName, strings.Trim(strings.ToLower(name), tokenChars) != "":
		return bus.Invalid(field, "names of HTTP headers of at most 256 bytes")
	case owned[canonical], strings.HasPrefix(canonical, "Proxy-"), strings.HasPrefix(canonical, "X-Iii-"):
		return bus.Invalid(field, "headers other than "+canonical+", which is not the worker's to set")
	case len(value) > maxHeaderValue, !isHeaderValue(value):
		return bus.Invalid(field, "values of at most 4096 printable characters")
	}
	return nil
}

// tokenChars are the characters of a header name, in lower case.
const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"

func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
