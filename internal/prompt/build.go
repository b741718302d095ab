package prompt

import "strings"

// Mode is how a run is meant to work.
type Mode string

// The modes; the empty one says nothing.
const (
	Plan  Mode = "plan"
	Ask   Mode = "ask"
	Agent Mode = "agent"
)

// Skill is a default skill: its URI and, if it could be loaded, its body.
type Skill struct {
	URI    string
	Body   string
	Loaded bool
}

// Input is what a prompt is made of.
type Input struct {
	// Override replaces the whole prompt.
	Override string
	Mode     Mode
	// Cwd is the session's working folder; empty if it has none.
	Cwd string
	// Index is the body of the skills index; empty if there is none.
	Index  string
	Skills []Skill
}

// Build is the system prompt.
func Build(in Input) string {
	if in.Override != "" {
		return in.Override
	}
	var parts []string
	for _, p := range []string{modes[in.Mode], identity(in.Cwd), strings.TrimSpace(in.Index)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	for _, s := range in.Skills {
		parts = append(parts, section(s))
	}
	return strings.Join(parts, "\n\n")
}

func section(s Skill) string {
	if body := strings.TrimSpace(s.Body); s.Loaded && body != "" {
		return "## Skill " + s.URI + "\n\n" + body
	}
	return "## Skill " + s.URI + "\n\n" +
		"This skill could not be loaded when the turn began. If you need it, fetch it yourself: " +
		"call agent_trigger with function \"directory::skills::get\" and payload {\"id\": \"" + ID(s.URI) + "\"}."
}

// ID is the id of the skill that a URI names.
func ID(uri string) string { return strings.TrimPrefix(uri, "iii://") }

// Namespace is the first segment of a skill's id.
func Namespace(uri string) string {
	ns, _, _ := strings.Cut(ID(uri), "/")
	return ns
}
