package shell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// admit checks a request and gives its time limit.
func (s *Shell) admit(r ExecRequest) (time.Duration, error) {
	if strings.TrimSpace(r.Command) == "" {
		return 0, bus.Missing("command")
	}
	if strings.ContainsRune(r.Command, 0) {
		return 0, invalid("command holds a NUL byte", "")
	}
	for i, a := range r.Args {
		if strings.ContainsRune(a, 0) {
			return 0, invalid(fmt.Sprintf("args[%d] holds a NUL byte", i), "")
		}
	}
	if t := r.Target; t != nil && t.Kind != "host" {
		return 0, &Error{Code: CodeTarget, Type: "target", Message: fmt.Sprintf("target kind %q does not serve here", clip(t.Kind)), Fix: `leave target out, or use {"kind":"host"}`}
	}
	longest := s.deps.MaxTimeout.Milliseconds()
	if r.TimeoutMS < 0 || r.TimeoutMS > longest {
		return 0, invalid(fmt.Sprintf("timeout_ms is %d", r.TimeoutMS), fmt.Sprintf("use 1 to %d, or leave it out", longest))
	}
	if err := s.permitted(r); err != nil {
		return 0, err
	}
	if r.TimeoutMS == 0 {
		return s.deps.MaxTimeout, nil
	}
	return time.Duration(r.TimeoutMS) * time.Millisecond, nil
}

// permitted asks the worker's config, which is a second fence behind policy.
func (s *Shell) permitted(r ExecRequest) error {
	line := strings.Join(append([]string{r.Command}, r.Args...), " ")
	for _, d := range s.deny {
		if d.MatchString(line) {
			return &Error{Code: CodeRefused, Type: "refused", Message: fmt.Sprintf("the command matches the refused pattern %q", d)}
		}
	}
	if len(s.allow) == 0 {
		return nil
	}
	program := r.Command
	if r.Args == nil {
		if compound(r.Command) {
			return &Error{Code: CodeRefused, Type: "refused", Message: "a command line of several commands is refused where only some programs may run", Fix: "run one program, with args"}
		}
		program = strings.Fields(r.Command)[0]
	}
	if !slices.Contains(s.allow, program) {
		return &Error{Code: CodeRefused, Type: "refused", Message: fmt.Sprintf("the program %q may not run", clip(program)), Fix: "run one of: " + strings.Join(s.allow, ", ")}
	}
	return nil
}

// compound reports whether a line of sh may run more than its first word.
func compound(line string) bool {
	return strings.ContainsAny(line, ";&|`<>\n\r") || strings.Contains(line, "$(")
}
