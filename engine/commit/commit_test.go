package commit

import (
	"context"
	"errors"
	"testing"
)

var errBoom = errors.New("boom")

func TestWaitGivesTheFirstErrorInOrder(t *testing.T) {
	t.Parallel()
	ok := Resolved(1, nil)
	bad := Resolved(0, errBoom)
	skipped := Resolved(0, ErrSkipped)
	if err := Wait(t.Context(), ok, nil, bad, skipped); !errors.Is(err, errBoom) {
		t.Errorf("error = %v, want boom", err)
	}
	if err := Wait(t.Context(), ok, nil); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	open := NewPromise[int]()
	if err := Wait(ctx, open); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if _, err := open.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	open.Resolve(3, nil) // the write itself went on
	if v, err := open.Wait(ctx); v != 3 || err != nil {
		t.Errorf("an ended promise gave %d, %v", v, err)
	}
}

func TestPromiseErrBeforeAndAfter(t *testing.T) {
	t.Parallel()
	p := NewPromise[string]()
	if p.Err() != nil {
		t.Error("an open promise has an error")
	}
	p.Resolve("", errBoom)
	<-p.Done()
	if !errors.Is(p.Err(), errBoom) {
		t.Errorf("error = %v", p.Err())
	}
}

func TestThen(t *testing.T) {
	t.Parallel()
	double := func(n int) (int, error) { return 2 * n, nil }
	if v, err := Then(Resolved(4, nil), double).Wait(t.Context()); v != 8 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	if _, err := Then(Resolved(4, errBoom), double).Wait(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("error = %v", err)
	}
}
