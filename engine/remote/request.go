package remote

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// newTransport dials only what is in reach: the address is judged after its name was resolved, for every connection. It
// uses no proxy, which would resolve and dial in its place. A nil resolver is the machine's.
func newTransport(r reach, resolver *net.Resolver) *http.Transport {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second, Resolver: resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return r.check(at.Addr())
		},
	}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

// request is the request of a call.
func (c *Caller) request(ctx context.Context, i *invocation, secret string, call *bus.Call) (*http.Request, error) {
	body := []byte(call.Data)
	req, err := http.NewRequestWithContext(ctx, i.Method, i.target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, validationFailed("url cannot be requested")
	}
	h := req.Header
	h.Set("Accept", "*/*")
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "") // none, instead of Go's
	for name, value := range i.Headers {
		h.Set(name, value)
	}
	timestamp := strconv.FormatInt(c.cfg.Clock.Now().Unix(), 10)
	i.Auth.sign(h, secret, timestamp, body)
	h.Set("X-Iii-Function-Path", headerText(call.FunctionID))
	h.Set("X-Iii-Invocation-Id", call.InvocationID)
	h.Set("X-Iii-Timestamp", timestamp)
	if parts := strings.Split(call.Traceparent, "-"); len(parts) >= 4 && isHeaderValue(parts[1]) {
		h.Set("X-Iii-Trace-Id", parts[1])
	}
	return req, nil
}

// headerText is an id as a header may carry it.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
