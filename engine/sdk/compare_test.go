package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var uuid = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// identities are the ids of a recording and what stands for them in a replay.
type identities struct {
	ours map[string]string // recorded id to ours
	used map[string]bool   // ours that stand for one
}

func newIdentities() *identities {
	return &identities{ours: map[string]string{}, used: map[string]bool{}}
}

// replace puts our ids into a recorded text. Ids that a client made are sent
// as they were.
func (x *identities) replace(text string) string {
	return uuid.ReplaceAllStringFunc(text, func(id string) string {
		if ours, ok := x.ours[id]; ok {
			return ours
		}
		return id
	})
}

// anonymous takes ids that only this run has out of a text.
func (x *identities) anonymous(text string) string {
	recorded := map[string]string{}
	for k, v := range x.ours {
		recorded[v] = k
	}
	return uuid.ReplaceAllStringFunc(text, func(id string) string {
		if k, ok := recorded[id]; ok {
			return k
		}
		return "<id>"
	})
}

// part is one place where two frames differ.
type part struct{ path, want, got string }

// meant reports whether a frame is the one that the engine sent as want: the
// answer to the same call, or the same kind of frame to the same function.
func (x *identities) meant(want, got any, l line) bool {
	w, ok1 := want.(map[string]any)
	g, ok2 := got.(map[string]any)
	if !ok1 || !ok2 {
		return ok1 == ok2
	}
	if w["type"] != g["type"] {
		return false
	}
	switch w["type"] {
	case "invocationresult", "triggerregistrationresult", "registertrigger", "unregistertrigger", "invokefunction":
		key := "id"
		if w["type"] == "invocationresult" || w["type"] == "invokefunction" {
			key = "invocation_id"
		}
		id, _ := w[key].(string)
		if ours, ok := x.ours[id]; ok {
			id = ours
		}
		if ours, _ := g[key].(string); strings.EqualFold(id, ours) {
			return true
		}
		// Calls that the bus makes have ids of its own: then the first that fits.
		if w["type"] != "invokefunction" || x.used[id] || w["function_id"] != g["function_id"] {
			return false
		}
		for _, d := range x.try(want, got) {
			if !permittedPart(l, d) {
				return false
			}
		}
	}
	return true
}

// try compares without remembering ids.
func (x *identities) try(want, got any) []part {
	y := &identities{maps.Clone(x.ours), maps.Clone(x.used)}
	return y.compare(want, got)
}

// compare lists where a frame differs from the recorded one. Ids that are new
// in both are taken for the same from then on; times are not compared.
func (x *identities) compare(want, got any) []part {
	if frame, ok := got.(map[string]any); ok && frame["type"] == "invokefunction" {
		got = withoutEnvelope(frame)
	}
	var out []part
	x.walk("", want, got, &out)
	return out
}

// withoutEnvelope takes away what the bus adds to the metadata of a call.
func withoutEnvelope(frame map[string]any) map[string]any {
	meta, ok := frame["metadata"].(map[string]any)
	if !ok {
		return frame
	}
	frame, meta = maps.Clone(frame), maps.Clone(meta)
	for _, key := range []string{"principal", "deadline_ms", "idempotency_key"} {
		delete(meta, key)
	}
	frame["metadata"] = meta
	if v, ok := meta["value"]; ok && len(meta) == 1 {
		frame["metadata"] = v // metadata that is no object is wrapped
	}
	if len(meta) == 0 {
		delete(frame, "metadata")
	}
	return frame
}

// inventory are lists of what a server has. What is compared of them is what
// the clients of the recording brought, whatever the order.
var inventory = regexp.MustCompile(`^(\.result|\.data)\.(functions|workers|triggers|registered_triggers|groups|stream)$`)

// documentation is what is said of functions and trigger types for people and
// models to read. Payloads are not validated against schemas (protocol 3).
var documentation = regexp.MustCompile(`^(request|response|configuration)_schema$`)

// own are the rows of a list that the clients of the recording brought.
func (x *identities) own(rows []any) []any {
	own := slices.DeleteFunc(slices.Clone(rows), func(row any) bool { return !strings.Contains(text(row), `"ora`) })
	slices.SortFunc(own, func(a, b any) int { return strings.Compare(x.replace(text(a)), x.replace(text(b))) })
	return own
}

// times are members whose value is a time.
var times = map[string]bool{"timestamp": true, "connected_at_ms": true, "actual_time": true, "scheduled_time": true}

func (x *identities) walk(path string, want, got any, out *[]part) {
	differ := func() { *out = append(*out, part{path, text(want), x.anonymous(text(got))}) }
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			differ()
			return
		}
		keys := map[string]bool{}
		for k := range w {
			keys[k] = true
		}
		for k := range g {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			wv, inW := w[k]
			gv, inG := g[k]
			switch {
			case documentation.MatchString(k):
			case !inW:
				*out = append(*out, part{path + "." + k, "", x.anonymous(text(gv))})
			case !inG:
				*out = append(*out, part{path + "." + k, text(wv), ""})
			case k == "instance_count": // of what else uses a trigger type, too
			case times[k] && fmt.Sprintf("%T", wv) == fmt.Sprintf("%T", gv):
			default:
				x.walk(path+"."+k, wv, gv, out)
			}
		}
	case []any:
		g, ok := got.([]any)
		if inventory.MatchString(path) && ok {
			w, g = x.own(w), x.own(g)
		}
		if !ok || len(g) != len(w) {
			differ()
			return
		}
		for i := range w {
			x.walk(fmt.Sprintf("%s[%d]", path, i), w[i], g[i], out)
		}
	case string:
		g, ok := got.(string)
		if w == "(text)" && ok && g != "" {
			return // a text that was not kept
		}
		if !ok || !x.sameText(w, g) {
			differ()
		}
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || !sameNumber(w, g) {
			differ()
		}
	default:
		if want != got {
			differ()
		}
	}
}

// sameText compares texts that may hold ids.
func (x *identities) sameText(want, got string) bool {
	w, g := uuid.FindAllString(want, -1), uuid.FindAllString(got, -1)
	if len(w) != len(g) || uuid.ReplaceAllString(want, "") != uuid.ReplaceAllString(got, "") {
		return false
	}
	for i := range w {
		ours, known := x.ours[w[i]]
		switch {
		case known && ours != g[i], !known && w[i] != g[i] && x.used[g[i]]:
			return false
		case !known:
			x.ours[w[i]], x.used[g[i]] = g[i], true
		}
	}
	return true
}

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && x == y
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
