package scripted

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// maxQuote is how many runes of a result are quoted.
const maxQuote = 4000

// quotes is a line per result, behind the function that gave it.
func quotes(results []agent.Message) []string {
	var lines []string
	for _, m := range results {
		lines = append(lines, m.FunctionID+" answered: "+quote(m))
	}
	return lines
}

// quote is the text of a result; that of a function which every harness has as
// a person would want to read it.
func quote(m agent.Message) string {
	t := text(m.Content)
	if !m.IsError {
		t = readable(m.FunctionID, t)
	}
	n := 0
	for i := range t {
		if n == maxQuote {
			return t[:i] + "…"
		}
		n++
	}
	return t
}

func readable(functionID, t string) string {
	var o struct {
		Time     string                  `json:"time"`
		Entries  []struct{ Name string } `json:"entries"`
		Stdout   *string                 `json:"stdout"`
		Stderr   string                  `json:"stderr"`
		ExitCode int                     `json:"exit_code"`
		TimedOut bool                    `json:"timed_out"`
	}
	if json.Unmarshal([]byte(t), &o) != nil {
		return t
	}
	switch {
	case functionID == "demo::time" && o.Time != "":
		return o.Time
	case functionID == "shell::fs::ls" && o.Entries != nil:
		names := make([]string, len(o.Entries))
		for i, e := range o.Entries {
			names[i] = e.Name
		}
		return orNothing(strings.Join(names, ", "))
	case functionID == "shell::exec" && o.Stdout != nil:
		out := orNothing(strings.TrimRight(*o.Stdout+o.Stderr, "\n"))
		switch {
		case o.TimedOut:
			out += " (stopped at its time limit)"
		case o.ExitCode != 0:
			out += fmt.Sprintf(" (exit code %d)", o.ExitCode)
		}
		return out
	default:
		return t
	}
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
