package lifetime

import (
	"context"
	"errors"
	"testing"
)

func TestCloseWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	l := New()
	release := make(chan struct{})
	if !l.Go(func() { <-release }) || !l.Begin() {
		t.Fatal("refused while it lives")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if l.Context().Err() == nil {
		t.Error("the context goes on")
	}
	if l.Begin() || l.Go(func() { t.Error("ran") }) {
		t.Error("work began after the end")
	}
	close(release)
	l.End()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
