package shell

import "strings"

// secretParts are in the names of variables that hold secrets.
var secretParts = []string{"API_KEY", "APIKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"}

// environ is the environment without what a command must not learn. It is
// never empty: an empty one would stand for the whole of the harness's own.
func (s *Shell) environ() []string {
	out := []string{"PWD=" + s.folder.path}
	if s.deps.Environ == nil {
		return out
	}
	for _, kv := range s.deps.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name = strings.ToUpper(name); name != "PWD" && !s.hidden(name) {
			out = append(out, kv)
		}
	}
	return out
}

// hidden reports whether a variable, in upper case, is kept from commands.
func (s *Shell) hidden(name string) bool {
	for _, prefix := range []string{"HARNESS_", "AWS_", "OTEL_EXPORTER_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, part := range secretParts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return s.secret[name]
}
