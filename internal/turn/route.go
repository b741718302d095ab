package turn

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

// CodeProviderNotFound: the named provider is not registered.
const CodeProviderNotFound = "provider_not_found"

// route is the provider of a model call.
type route struct {
	name string
	// complete: it serves no stream.
	complete bool
}

func (r route) functionID() string {
	if r.complete {
		return "provider::" + r.name + "::complete"
	}
	return "provider::" + r.name + "::stream"
}

// modelFailure is a model call that ended in an error.
type modelFailure struct {
	kind agent.ErrorKind
	text string
	// afterMS is the provider's own wish for a pause.
	afterMS int64
}

var guesses = []struct {
	model    *regexp.Regexp
	provider string
}{
	{regexp.MustCompile(`(?i)^gpt-`), "openai"},
	{regexp.MustCompile(`(?i)^o[0-9]-`), "openai"},
	{regexp.MustCompile(`(?i)^kimi-`), "kimi"},
	{regexp.MustCompile(`(?i)^moonshot-v1-`), "kimi"},
}

// decide names the provider of a model. A provider that was named must be
// registered now; only without a name is it guessed.
func (d *driver) decide(provider, model string) (route, *modelFailure) {
	if provider == "" {
		provider = d.guess(model)
	}
	name := strings.ToLower(provider)
	if r, ok := d.t.registered(name); ok {
		return r, nil
	}
	return route{}, &modelFailure{kind: agent.ErrPermanent, text: fmt.Sprintf(
		"%s: no worker serves provider %s. Registered: %s.", CodeProviderNotFound, quote(name), strings.Join(d.t.providers(), ", "))}
}

// registered reports whether a provider can be called now.
func (t *Turn) registered(name string) (route, bool) {
	for _, r := range []route{{name: name}, {name: name, complete: true}} {
		if _, ok := t.Directory.Lookup(bus.DefaultNamespace, r.functionID()); ok {
			return r, true
		}
	}
	return route{}, false
}

// providers is the names of the registered providers, sorted.
func (t *Turn) providers() []string {
	out := []string{}
	for _, e := range t.Directory.List(bus.DefaultNamespace) {
		name, ok := strings.CutPrefix(e.FunctionID, "provider::")
		if !ok {
			continue
		}
		name, what, _ := strings.Cut(name, "::")
		if (what == "stream" || what == "complete") && (len(out) == 0 || out[len(out)-1] != name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		out = append(out, "none")
	}
	return out
}

// guess names a provider that nobody named. On the local server only one that
// is registered and has a credential is guessed; with none it is scripted.
func (d *driver) guess(model string) string {
	wish := d.t.cfg.DefaultProvider
	configured := wish != ""
	if !configured {
		wish = "anthropic"
	}
	for _, g := range guesses {
		if g.model.MatchString(model) {
			wish, configured = g.provider, false
			break
		}
	}
	if configured || !d.t.cfg.Local || d.usable(wish) {
		return wish
	}
	if def := d.t.cfg.DefaultProvider; def != "" {
		return def
	}
	d.t.Logger.Info("no provider was named and none has a credential, the scripted one answers",
		"session", d.rec.SessionID, "model", model, "looked_for", wish)
	return "scripted"
}

// usable reports whether a provider is registered and has a credential. Where
// nobody can tell about credentials, it has one.
func (d *driver) usable(provider string) bool {
	if _, ok := d.t.registered(provider); !ok {
		return false
	}
	raw, err := d.invoke(d.work, "auth::status", encode(map[string]string{"provider": provider}), lookupFor)
	if err != nil {
		return bus.Code(err) == protocol.CodeFunctionNotFound
	}
	var s struct {
		Configured bool `json:"configured"`
	}
	return json.Unmarshal(raw, &s) == nil && s.Configured
}
