package main

import (
	"strconv"
	"time"
)

// namespaceGrace is how long a connection may take to announce its namespace, as the environment says; 0 if it does not.
func (s *stack) namespaceGrace() time.Duration {
	text := s.getenv("III_NAMESPACE_GRACE_MS")
	if text == "" {
		return 0
	}
	ms, err := strconv.Atoi(text)
	if err != nil || ms < 1 || ms > 600_000 {
		s.logger.Warn("III_NAMESPACE_GRACE_MS is not used", "value", text, "allowed", "1 to 600000")
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
