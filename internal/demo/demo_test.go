package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func TestTime(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Date(2026, 12, 1, 23, 30, 0, 987e6, time.UTC))
	handle := New(c).Endpoints()["demo::time"].Handle
	for _, tt := range []struct{ name, in, want string }{
		{"utc", `{}`, `{"time":"2026-12-01T23:30:00Z","time_zone":"UTC","unix_ms":1796167800987}`},
		{"null", `null`, `{"time":"2026-12-01T23:30:00Z","time_zone":"UTC","unix_ms":1796167800987}`},
		{"a zone", `{"time_zone":"Europe/Paris"}`, `{"time":"2026-12-02T00:30:00+01:00","time_zone":"Europe/Paris","unix_ms":1796167800987}`},
		{"half an hour", `{"time_zone":"Asia/Kolkata"}`, `{"time":"2026-12-02T05:00:00+05:30","time_zone":"Asia/Kolkata","unix_ms":1796167800987}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := handle(t.Context(), &bus.Call{Data: json.RawMessage(tt.in)})
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestWhatIsNoTimeZone(t *testing.T) {
	t.Parallel()
	handle := New(clock.NewFake(time.Unix(0, 0))).Endpoints()["demo::time"].Handle
	for _, tt := range []struct{ name, in, want string }{
		{"unknown", `{"time_zone":"Mars/Base"}`, `invalid time_zone: must be an IANA time zone such as Europe/Paris, not "Mars/Base"`},
		{"the machine's own", `{"time_zone":"Local"}`, `not "Local"`},
		{"path", `{"time_zone":"../../../etc/passwd"}`, `not "../../../etc/passwd"`},
		{"absolute path", `{"time_zone":"/etc/localtime"}`, `not "/etc/localtime"`},
		{"long", `{"time_zone":"` + strings.Repeat("é", 500) + `"}`, `not "` + strings.Repeat("é", 60) + `…"`},
		{"number", `{"time_zone":5}`, "invalid time_zone: must be a string"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := handle(t.Context(), &bus.Call{Data: json.RawMessage(tt.in)})
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) || bus.Code(err) != "invalid_payload" {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestTimeMovesWithTheClock(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Unix(100, 0))
	handle := New(c).Endpoints()["demo::time"].Handle
	first, err := handle(t.Context(), &bus.Call{})
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	if second, err := handle(t.Context(), &bus.Call{}); err != nil || string(second) == string(first) {
		t.Errorf("%s, %v", second, err)
	}
}
