package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func TestTime(t *testing.T) {
	t.Parallel()
	e := New(clock.NewFake(time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC))).Endpoints()["demo::time"]
	for data, want := range map[string]string{
		`{}`:                           `{"time":"2026-12-01T10:00:00Z","time_zone":"UTC","unix_ms":1796119200000}`,
		`{"time_zone":"Europe/Paris"}`: `{"time":"2026-12-01T11:00:00+01:00","time_zone":"Europe/Paris","unix_ms":1796119200000}`,
	} {
		if got, err := e.Handle(t.Context(), &bus.Call{Data: json.RawMessage(data)}); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", data, got, err)
		}
	}
	_, err := e.Handle(t.Context(), &bus.Call{Data: json.RawMessage(`{"time_zone":"Mars"}`)})
	if bus.Code(err) != "invalid_payload" || !strings.Contains(err.Error(), "Europe/Paris") {
		t.Errorf("error %v", err)
	}
}
