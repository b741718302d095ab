package queue_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// logBuffer keeps what was logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) want(t *testing.T, text string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.Contains(b.buf.String(), text) {
		t.Errorf("the log lacks %q:\n%s", text, b.buf.String())
	}
}
