package shell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/iii-aws/harness/engine/bus"
)

// config is the worker's own config.
type config struct {
	// Root replaces the working folder.
	Root string `json:"root"`
	// Allow names the only programs that may run; empty allows all.
	Allow []string `json:"allow"`
	// Deny are regular expressions over the command with its arguments.
	Deny []string `json:"deny"`
	// TimeoutMS is the longest time limit of a command.
	TimeoutMS int64 `json:"timeout_ms"`

	deny []*regexp.Regexp
}

func readConfig(raw json.RawMessage) (config, error) {
	var c config
	if len(raw) == 0 {
		return c, nil
	}
	const field = "workers.shell.config"
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return config{}, &bus.InvalidError{Field: field, Allowed: "root (a folder), allow (a list of programs), deny (a list of regular expressions), timeout_ms (a number)", Err: err}
	}
	if maxMS := DefaultTimeout.Milliseconds(); c.TimeoutMS < 0 || c.TimeoutMS > maxMS {
		return config{}, bus.Invalid(field+".timeout_ms", fmt.Sprintf("0 (the default) to %d", maxMS))
	}
	for i, d := range c.Deny {
		re, err := regexp.Compile(d)
		if err != nil {
			return config{}, &bus.InvalidError{Field: fmt.Sprintf("%s.deny[%d]", field, i), Allowed: "a regular expression (RE2)", Err: err}
		}
		c.deny = append(c.deny, re)
	}
	return c, nil
}
