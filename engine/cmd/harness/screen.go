package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/iii-aws/harness/internal/agent"
)

// screen prints a run for a person: the answer on stdout as it streams, what
// happens beside it on stderr.
type screen struct {
	out, side io.Writer
	// id and attempt name the message whose text is being shown; a higher
	// attempt supersedes it.
	id      string
	attempt int64
	shown   strings.Builder
	open    bool // the cursor is not at the start of a line
}

func (s *screen) write(text string) error {
	if text == "" {
		return nil
	}
	s.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(s.out, text)
	return err
}

func (s *screen) newline() error {
	if !s.open {
		return nil
	}
	return s.write("\n")
}

func (s *screen) see(kind string, raw json.RawMessage) error {
	switch kind {
	case agent.EventMessageUpdate:
		var e agent.MessageUpdate
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		return s.delta(e)
	case agent.EventMessageComplete:
		var e agent.MessageComplete
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		return s.complete(e.Message)
	case agent.EventExecutionStart:
		var e agent.ExecutionStart
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		return s.note("-> %s %s", e.FunctionID, clipText(string(e.Args), 200))
	case agent.EventExecutionEnd:
		var e agent.ExecutionEnd
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		word := "ok"
		if e.IsError {
			word = "failed"
		}
		return s.note("<- %s %s, %d ms", e.FunctionID, word, e.DurationMS)
	}
	return nil
}

func (s *screen) delta(e agent.MessageUpdate) error {
	if e.MessageID != s.id || e.Attempt > s.attempt {
		if err := s.newline(); err != nil {
			return err
		}
		s.id, s.attempt = e.MessageID, e.Attempt
		s.shown.Reset()
	}
	if e.Attempt < s.attempt || e.LLMEvent.Type != agent.LLMTextDelta {
		return nil
	}
	s.shown.WriteString(e.LLMEvent.Delta)
	return s.write(e.LLMEvent.Delta)
}

// complete prints what the deltas left out: a slow viewer loses some.
func (s *screen) complete(m agent.Message) error {
	full, shown := messageText(m), s.shown.String()
	s.id, s.attempt = "", 0
	s.shown.Reset()
	rest, ok := strings.CutPrefix(full, shown)
	if !ok {
		if err := s.newline(); err != nil {
			return err
		}
		rest = full
	}
	if err := s.write(rest); err != nil {
		return err
	}
	return s.newline()
}

func (s *screen) note(format string, args ...any) error {
	if err := s.newline(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.side, format+"\n", args...)
	return err
}
