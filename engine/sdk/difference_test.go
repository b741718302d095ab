package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// difference is one place where ours differs from a recording.
type difference struct {
	at   string // recording:line, or recording and connection of an extra frame
	path string
	want string
	got  string
}

func (r *replay) note(l line, path, want, got string) {
	at := l.at()
	if l.n == 0 {
		at = l.recording + " " + l.conn
	}
	r.found = append(r.found, difference{at, path, want, got})
}

// allowed is a difference that the protocol allows. got is what ours is; after
// "…" more may follow.
type allowed struct{ at, path, got string }

func (a allowed) is(d difference) bool {
	if a.at != d.at || a.path != d.path {
		return false
	}
	if head, ok := strings.CutSuffix(a.got, "…"); ok {
		return strings.HasPrefix(d.got, head)
	}
	return a.got == d.got
}

// find is the index of the allowance of a difference, or -1, and its reason.
func find(d difference) (reason string, i int) {
	for reason, rows := range differences {
		if i := slices.IndexFunc(rows, func(a allowed) bool { return a.is(d) }); i >= 0 {
			return reason, i
		}
	}
	return "", -1
}

// permitted reports whether a frame may be missing.
func permitted(l line, path string) bool {
	_, i := find(difference{at: l.at(), path: path})
	return i >= 0
}

func permittedPart(l line, d part) bool {
	_, i := find(difference{l.at(), d.path, d.want, d.got})
	return i >= 0
}

// TestRawClients sends what the raw clients of the recordings sent, and wants
// the engine's answers but for the differences that the protocol lists. Each
// is named, and must be met.
func TestRawClients(t *testing.T) {
	for _, name := range recordings(t) {
		if !replays(t, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayed(t, name)
		})
	}
}

// replays reports a recording that TestRawClients plays.
func replays(t testing.TB, name string) bool {
	t.Helper()
	raw := slices.ContainsFunc(recording(t, name), func(l line) bool { return !skipped(l) && l.dir == "open" })
	return raw && pending[name] == ""
}

// pending are recordings whose parts of the bus are not served yet.
var pending = map[string]string{
	"01-connect-raw":          "engine::baggage::*",
	"16-lists":                "engine::log::*, engine::baggage::*",
	"27-observability-on":     "engine::log::*",
	"32-stream-trigger-panic": "engine::baggage::*",
}

func replayed(t *testing.T, name string) {
	backing := newBacking(t)
	s := serve(t, configs[name])
	r := &replay{t: t, server: s, name: name, sockets: map[string]*socket{}, ids: newIdentities(),
		rewrite: func(s string) string { return strings.ReplaceAll(s, recordedServer, backing.URL) },
		noted:   backing.noted,
		wait: func() context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
			t.Cleanup(cancel)
			return ctx
		}}
	r.original = strings.NewReplacer(backing.URL, recordedServer, strings.TrimPrefix(s.Ready.HTTP, "http://"), recordedHTTP).Replace
	r.run(before[name])
	met := map[string]bool{}
	var b strings.Builder
	for _, d := range r.found {
		reason, i := find(d)
		if i < 0 {
			fmt.Fprintf(&b, "\t{%q, %q, %q}, // want %s\n", d.at, d.path, clip(d.got), clip(d.want))
		}
		met[fmt.Sprint(reason, i)] = true
	}
	for reason, rows := range differences {
		for i, a := range rows {
			if at, _, _ := strings.Cut(strings.ReplaceAll(a.at, " ", ":"), ":"); at == name && !met[fmt.Sprint(reason, i)] {
				fmt.Fprintf(&b, "not met: %q, %q, %q (%s)\n", a.at, a.path, a.got, reason)
			}
		}
	}
	if b.Len() > 0 {
		t.Errorf("not as recorded:\n%s", b.String())
	}
}

// before are things to wait for before a line of a recording is sent: the
// recorder waited some seconds there.
var before = map[string]map[int]func(*replay){
	"11-trigger-fire": {1: func(r *replay) {
		// The engine had these from before.
		c := dial(r.t, r.server)
		for _, scope := range []string{"blocked", "condmissing"} {
			invoke(r.t, c, "state::set", `{"scope":"`+scope+`","key":"k","value":1}`, nil)
		}
		playWeb(r)
	}},
	"26-builtin-shadow": {30: func(r *replay) { left(r.t, dial(r.t, r.server), "ora-b") }},
	"22-http-backed":    {54: func(r *replay) { served(r.t, dial(r.t, r.server), "ora::h", false) }},
	"01-connect-raw":    {37: func(r *replay) { served(r.t, dial(r.t, r.server), "ora::noannounce", true) }},
}

// configs are the config files that some recordings need.
var configs = map[string]string{
	"22-http-backed": `workers: []
remote:
  plain_http: true
  private_networks: [127.0.0.0/8]
  secret_keys: [HOME, NOPE]
`,
}
