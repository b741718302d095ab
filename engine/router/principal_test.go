package router_test

import (
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// TestPrincipalOfNestedCalls has a worker serve calls for ann and bob at once, and call others meanwhile.
func TestPrincipalOfNestedCalls(t *testing.T) {
	t.Parallel()
	const (
		traceA = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-b7ad6b7169203331-01"
		traceB = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-b7ad6b7169203331-01"
		ofAnn  = "0d1f0000-0000-4000-8000-0000000000aa"
		ofBob  = "0d1f0000-0000-4000-8000-0000000000bb"
	)
	g := newRig(t)
	ann, bob, w, other := g.connect("ann"), g.connect("bob"), g.connect("w"), g.connect("other")
	ann.principal.Sessions = []string{"s*"}
	g.register(w, "w::f")
	g.register(other, "o::f")
	g.send(ann, `{"type":"invokefunction","invocation_id":"`+ofAnn+`","function_id":"w::f","traceparent":"`+traceA+`"}`)
	g.send(bob, `{"type":"invokefunction","invocation_id":"`+ofBob+`","function_id":"w::f","traceparent":"`+traceB+`"}`)
	first, second := w.call(t), w.call(t)

	n := 0
	ask := func(from *conn, members string) string {
		t.Helper()
		n++
		g.send(from, `{"type":"invokefunction","function_id":"o::f"`+members+`}`)
		call := other.call(t)
		claim, _ := protocol.Member(call.Metadata, "principal")
		id, _ := protocol.Member(claim, "id")
		person, ok := protocol.Member(claim, "on_behalf_of")
		if ok {
			return string(id) + string(person)
		}
		return string(id)
	}
	for _, tc := range []struct {
		name    string
		from    *conn
		members string
		want    string
	}{
		{"nothing", w, ``, `"p-w"`},
		{"parent", w, `,"metadata":{"parent_invocation_id":"` + ofAnn + `"}`, `"p-ann"`},
		{"parent in upper case", w, `,"metadata":{"parent_invocation_id":"0D1F0000-0000-4000-8000-0000000000BB"}`, `"p-bob"`},
		{"trace", w, `,"traceparent":"00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-0000000000000001-01"`, `"p-bob"`},
		{"parent before trace", w, `,"traceparent":"` + traceB + `","metadata":{"parent_invocation_id":"` + ofAnn + `"}`, `"p-ann"`},
		{"unknown parent, known trace", w, `,"traceparent":"` + traceB + `","metadata":{"parent_invocation_id":"` + id1 + `"}`, `"p-bob"`},
		{"parent that is no id", w, `,"metadata":{"parent_invocation_id":"x"}`, `"p-w"`},
		{"parent that is no string", w, `,"metadata":{"parent_invocation_id":7}`, `"p-w"`},
		{"other trace", w, `,"traceparent":"` + traceparent + `"`, `"p-w"`},
		{"trace that is none", w, `,"traceparent":"00-00000000000000000000000000000000-1-01"`, `"p-w"`},
		{"somebody else's call", bob, `,"metadata":{"parent_invocation_id":"` + ofAnn + `"},"traceparent":"` + traceA + `"`, `"p-bob"`},
		{"claims nothing", w, `,"metadata":{"principal":{"id":"root","role":"operator","on_behalf_of":"x"}}`, `"p-w"`},
	} {
		if got := ask(tc.from, tc.members); got != tc.want {
			t.Errorf("%s: for %s, want %s", tc.name, got, tc.want)
		}
	}
	w.actAs = true
	for members, want := range map[string]string{
		`,"metadata":{"principal":{"id":"root","on_behalf_of":"slack:T:U"},"parent_invocation_id":"` + ofAnn + `"}`: `"p-w""slack:T:U"`,
		`,"metadata":{"principal":{"on_behalf_of":7}}`:                                                              `"p-w"`,
		`,"metadata":{"principal":"x"}`:                                                                             `"p-w"`,
	} {
		if got := ask(w, members); got != want {
			t.Errorf("%s: for %s, want %s", members, got, want)
		}
	}
	// Two calls of one trace for different people: nobody's.
	g.send(ann, `{"type":"invokefunction","function_id":"w::f","traceparent":"`+traceB+`"}`)
	third := w.call(t)
	if got := ask(w, `,"traceparent":"`+traceB+`"`); got != `"p-w"` {
		t.Errorf("a trace of two people is for %s", got)
	}
	g.answer(w, third, "1")
	if got := ask(w, `,"traceparent":"`+traceB+`"`); got != `"p-bob"` {
		t.Errorf("the trace is for %s again", got)
	}
	// A call that is answered lends nothing any more.
	g.answer(w, first, "1")
	g.answer(w, second, "1")
	for _, members := range []string{`,"metadata":{"parent_invocation_id":"` + ofAnn + `"}`, `,"traceparent":"` + traceB + `"`} {
		if got := ask(w, members); got != `"p-w"` {
			t.Errorf("%s: for %s after the answer", members, got)
		}
	}
}

func TestSessionsOfAPrincipalStayWithTheBus(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	a.principal = bus.Principal{ID: "ann", Role: bus.RoleApprover, Sessions: []string{"s*"}}
	g.register(b, "f::g")
	g.send(a, `{"type":"invokefunction","function_id":"f::g"}`)
	if got, _ := protocol.Member(b.call(t).Metadata, "principal"); string(got) != `{"id":"ann","role":"approver"}` {
		t.Errorf("got %s", got)
	}
}
