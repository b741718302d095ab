package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLargePayloadsPass sends and gets more than a message of API Gateway
// holds, and more than a value that is stored inline.
func TestLargePayloadsPass(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	value := strings.Repeat(`ü"\`, 200_000)
	for key, v := range map[string]string{"small": value[:100], "large": value} {
		req, err := json.Marshal(map[string]string{"scope": "mine", "key": key, "value": v})
		if err != nil {
			t.Fatal(err)
		}
		if a := s.harnessIn(string(req), "call", "state::set", "-"); a.code != exitDone {
			t.Fatalf("%s: exit %d: %s", key, a.code, a.stderr)
		}
		var got string
		a := s.want(exitDone, "call", "state::get", `{"scope":"mine","key":"`+key+`"}`, "--json")
		if err := json.Unmarshal([]byte(a.stdout), &got); err != nil || got != v {
			t.Errorf("%s: %d of %d bytes came back, %v", key, len(got), len(v), err)
		}
	}
}
