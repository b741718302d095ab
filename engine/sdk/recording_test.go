package sdk

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/protocol"
)

// line is one line of a recording.
type line struct {
	recording string
	n         int    // from 1
	conn      string // name; the name and path of a socket that is not the worker socket
	dir       string // w>e, e>w, open, w-close, e-close, w-ping, e-pong, e-http, note
	frame     json.RawMessage
	text      []byte // of w>e and e>w: the message
	binary    bool   // it came in a binary frame
	size      int    // of a message of which only the beginning was kept, else 0
}

func (l line) at() string { return fmt.Sprintf("%s:%d", l.recording, l.n) }

// whole is the message at its full size. What was cut is a run of one byte
// inside a string.
func (l line) whole() []byte {
	if l.size == 0 {
		return l.text
	}
	head := bytes.TrimRight(l.text, "…")
	end := ""
	switch {
	case l.binary:
	case bytes.Contains(head, []byte(`"data":{`)):
		end = `"}}`
	default:
		end = `"}`
	}
	whole := append(bytes.Clone(head), bytes.Repeat([]byte("x"), l.size-len(head)-len(end))...)
	return append(whole, end...)
}

// name is the connection's without its path.
func (l line) name() string { name, _, _ := strings.Cut(l.conn, " "); return name }

// raw reports a connection of a client with frames made by hand: A to D.
func (l line) raw() bool { return len(l.conn) == 1 && l.conn[0] >= 'A' && l.conn[0] <= 'D' }

// recordings are the names of all recordings.
func recordings(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/frames/*.jsonl")
	if err != nil || len(files) != 26 {
		t.Fatalf("recordings: %d files, %v", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".jsonl")
	}
	return files
}

func recording(t testing.TB, name string) []line {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata/frames", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	var all []line
	for scan.Scan() {
		var row struct {
			Conn, Dir string
			Frame     json.RawMessage
		}
		l := line{recording: name, n: len(all) + 1}
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v", l.at(), err)
		}
		l.conn, l.dir, l.frame, l.text = row.Conn, row.Dir, row.Frame, row.Frame
		if l.dir == "w>e" || l.dir == "e>w" {
			var special struct {
				NotJSON     *string `json:"not_json"`
				BinaryBytes *int    `json:"binary_bytes"`
				TextBytes   *int    `json:"text_bytes"`
				Head        string
			}
			if err := json.Unmarshal(row.Frame, &special); err != nil {
				t.Fatalf("%s: %v", l.at(), err)
			}
			switch {
			case special.NotJSON != nil:
				l.text = []byte(*special.NotJSON)
			case special.BinaryBytes != nil:
				if l.text, err = base64.StdEncoding.DecodeString(special.Head); err != nil {
					t.Fatalf("%s: %v", l.at(), err)
				}
				l.binary = true
				if len(l.text) < *special.BinaryBytes {
					l.size = *special.BinaryBytes
				}
			case special.TextBytes != nil:
				l.text, l.size = []byte(special.Head), *special.TextBytes
			}
		}
		// Frames that were recorded without the proxy stand in notes.
		var note struct {
			Note struct {
				Conn, Dir string
				Frame     json.RawMessage
			}
		}
		if l.dir == "note" && json.Unmarshal(l.frame, &note) == nil && note.Note.Dir != "" {
			l.conn, l.dir, l.frame, l.text = note.Note.Conn, note.Note.Dir, note.Note.Frame, note.Note.Frame
		}
		all = append(all, l)
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRecordedWorkerFramesDecode decodes every frame that a worker sent on a
// worker socket. What may not decode was sent as junk, and is named.
func TestRecordedWorkerFramesDecode(t *testing.T) {
	t.Parallel()
	junk := map[string]protocol.Kind{
		"01-connect-raw:14":      protocol.KindInvalidJSON,
		"01-connect-raw:16":      protocol.KindUnknownType,
		"01-connect-raw:18":      protocol.KindInvalidJSON,
		"01-connect-raw:20":      protocol.KindMissingField,
		"01-connect-raw:24":      protocol.KindBadUUID,
		"04-trigger-sync:45":     protocol.KindBadType,
		"06-unknown-function:24": protocol.KindBadValue,
	}
	frames := 0
	for _, name := range recordings(t) {
		for _, l := range recording(t, name) {
			if l.dir != "w>e" || strings.Contains(l.conn, " ") {
				continue
			}
			frames++
			_, err := protocol.Decode(l.whole())
			want, isJunk := junk[l.at()]
			var de *protocol.DecodeError
			switch {
			case err == nil && isJunk:
				t.Errorf("%s decodes, want %v", l.at(), want)
			case err != nil && (!errors.As(err, &de) || !isJunk || de.Kind != want):
				t.Errorf("%s: %v: %s", l.at(), err, clip(string(l.text)))
			}
			delete(junk, l.at())
		}
	}
	if len(junk) > 0 || frames < 450 {
		t.Errorf("%d frames; junk that was not met: %v", frames, junk)
	}
}

// repeats names the recordings that a test repeats with a stock SDK or a
// stand-in for one.
func repeats(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("testdata/frames", name+".jsonl")); err != nil {
			t.Fatal(err)
		}
	}
}

// unrepeated are the recordings that no test repeats, beside the pending ones
// of TestRawClients, and why.
var unrepeated = map[string]string{}

// TestRecordingsWithoutATest holds the list of recordings without a test
// against the calls of repeats in this package.
func TestRecordingsWithoutATest(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "repeats" {
				return true
			}
			for _, arg := range call.Args[1:] {
				if lit, ok := arg.(*ast.BasicLit); ok {
					text, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					named[text] = true
				}
			}
			return true
		})
	}
	var none []string
	for _, name := range recordings(t) {
		if !named[name] && !replays(t, name) {
			none = append(none, name)
		}
	}
	var listed []string
	for _, name := range recordings(t) {
		if unrepeated[name] != "" || pending[name] != "" && !named[name] {
			listed = append(listed, name)
		}
	}
	if diff := cmp.Diff(listed, none); diff != "" {
		t.Errorf("recordings without a test (-listed +found):\n%s", diff)
	}
}
