package demo

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // a container or Lambda has no zones of its own

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

// Demo is the worker.
type Demo struct{ clock clock.Clock }

// New takes the clock that is read.
func New(c clock.Clock) *Demo { return &Demo{clock: c} }

type timeRequest struct {
	// TimeZone is an IANA name; empty is UTC.
	TimeZone string `json:"time_zone,omitempty"`
}

// TimeResponse is a moment.
type TimeResponse struct {
	Time     string `json:"time"` // RFC 3339
	TimeZone string `json:"time_zone"`
	UnixMS   int64  `json:"unix_ms"`
}

// Endpoints is the functions of the worker.
func (d *Demo) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{"demo::time": bus.Typed(d.time)}
}

func (d *Demo) time(_ context.Context, _ *bus.Call, r timeRequest) (TimeResponse, error) {
	zone, err := time.LoadLocation(r.TimeZone)
	if err != nil || r.TimeZone == "Local" {
		return TimeResponse{}, &bus.InvalidError{Field: "time_zone", Allowed: fmt.Sprintf("an IANA time zone such as Europe/Paris, not %q", clip(r.TimeZone)), Err: err}
	}
	now := d.clock.Now().In(zone)
	return TimeResponse{Time: now.Format(time.RFC3339), TimeZone: zone.String(), UnixMS: clock.Millis(now)}, nil
}

// clip keeps an error short.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
