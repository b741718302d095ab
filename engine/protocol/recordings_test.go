package protocol

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type recorded struct {
	at    string // file and line
	dir   string
	frame []byte // the text of the message
}

// recordings reads every recorded message. Messages that are no JSON text frames come as what was on the wire.
func recordings(t testing.TB) []recorded {
	t.Helper()
	files, err := filepath.Glob("testdata/frames/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("recordings: %d files, %v", len(files), err)
	}
	var all []recorded
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			var line struct {
				Dir   string
				Frame json.RawMessage
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%s:%d: %v", name, n, err)
			}
			var special struct {
				NotJSON *string `json:"not_json"`
				Head    *string
			}
			if err := json.Unmarshal(line.Frame, &special); err != nil {
				t.Fatalf("%s:%d: %v", name, n, err)
			}
			text := []byte(line.Frame)
			switch {
			case special.NotJSON != nil:
				text = []byte(*special.NotJSON)
			case special.Head != nil:
				if text, err = base64.StdEncoding.DecodeString(*special.Head); err != nil {
					t.Fatalf("%s:%d: %v", name, n, err)
				}
			}
			all = append(all, recorded{at: filepath.Base(name) + ":" + strconv.Itoa(n), dir: line.Dir, frame: text})
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The recordings send junk on purpose. Everything else a worker sent must decode.
func TestRecordedWorkerFramesDecode(t *testing.T) {
	t.Parallel()
	type failure struct {
		Kind  Kind
		Field string
	}
	junk := map[string]struct {
		reason string
		want   failure
	}{
		`not json`:                    {"text that is no JSON", failure{KindInvalidJSON, ""}},
		`   `:                         {"blank text", failure{KindInvalidJSON, ""}},
		`{"type":"nosuchtype","x":1}`: {"unknown type", failure{KindUnknownType, "type"}},
		`"invocation_id":"f819b40d-b96a-4632-ac84-da46d678f93e"`: {"call without function_id", failure{KindMissingField, "function_id"}},
		`"invocation_id":"abc"`:                                  {"invocation_id is no UUID", failure{KindBadUUID, "invocation_id"}},
		`"namespace":5`:                                          {"namespace is no string", failure{KindBadType, "namespace"}},
		`"action":{"type":"zzz"}`:                                {"unknown action", failure{KindBadValue, "action.type"}},
	}
	used := make(map[string]bool)
	frames := 0
	for _, r := range recordings(t) {
		if r.dir != "w>e" {
			continue
		}
		frames++
		var want failure
		for mark, j := range junk {
			if containsText(r.frame, mark) {
				want, used[mark] = j.want, true
			}
		}
		frame, err := Decode(r.frame)
		var got failure
		if err != nil {
			var de *DecodeError
			if !errors.As(err, &de) {
				t.Fatalf("%s: error %T, want *DecodeError", r.at, err)
			}
			got = failure{de.Kind, de.Field}
		}
		if got != want {
			t.Errorf("%s: got %+v, want %+v: %s", r.at, got, want, r.frame)
		}
		if (frame == nil) != (err != nil) {
			t.Errorf("%s: frame %v with error %v", r.at, frame, err)
		}
	}
	if frames < 400 {
		t.Errorf("only %d recorded frames", frames)
	}
	for mark, j := range junk {
		if !used[mark] {
			t.Errorf("no recording has %s: %s", mark, j.reason)
		}
	}
}

func containsText(b []byte, s string) bool {
	if s == "   " || s == "not json" {
		return string(b) == s
	}
	return len(s) > 0 && bytes.Contains(b, []byte(s))
}

// What the engine sent must come back byte for byte: order of members, omission, escaping, opaque text.
func TestRecordedEngineFramesRoundTrip(t *testing.T) {
	t.Parallel()
	frames := 0
	for _, r := range recordings(t) {
		if r.dir != "e>w" {
			continue
		}
		frames++
		frame, err := Decode(r.frame)
		if err != nil {
			t.Errorf("%s: %v: %s", r.at, err, r.frame)
			continue
		}
		got, err := Encode(frame)
		if err != nil {
			t.Errorf("%s: %v", r.at, err)
			continue
		}
		if diff := cmp.Diff(string(r.frame), string(got)); diff != "" {
			t.Errorf("%s (-recorded +encoded):\n%s", r.at, diff)
		}
	}
	if frames < 350 {
		t.Errorf("only %d recorded frames", frames)
	}
}

// What the SDKs send keeps its content, if not its order.
func TestRecordedWorkerFramesKeepTheirContent(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		frame, err := Decode(r.frame)
		if err != nil {
			continue // TestRecordedWorkerFramesDecode says which may fail
		}
		text, err := Encode(frame)
		if err != nil {
			t.Errorf("%s: %v", r.at, err)
			continue
		}
		again, err := Decode(text)
		if err != nil {
			t.Errorf("%s: %v: %s", r.at, err, text)
			continue
		}
		if diff := cmp.Diff(frame, again); diff != "" {
			t.Errorf("%s (-decoded +decoded again):\n%s", r.at, diff)
		}
		var before, after map[string]any
		if err := errors.Join(json.Unmarshal(r.frame, &before), json.Unmarshal(text, &after)); err != nil {
			t.Fatalf("%s: %v", r.at, err)
		}
		for key, v := range after {
			if key == "data" && before["data"] == nil || key == "config" && before["config"] == nil {
				continue // absent payloads are filled in
			}
			if key == "error" {
				continue // TestResultTolerance
			}
			if key == "function_id" && before[key] == nil {
				continue
			}
			if diff := cmp.Diff(before[key], v); diff != "" {
				t.Errorf("%s: member %s (-recorded +encoded):\n%s", r.at, key, diff)
			}
		}
	}
}
