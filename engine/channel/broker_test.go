package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func open(t *testing.T, l *Local, buffer int) (Writer, Reader) {
	t.Helper()
	wref, rref, err := l.Create(t.Context(), buffer)
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.OpenWriter(wref)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenReader(rref)
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func newLocal() (*Local, *clock.Fake) {
	c := clock.NewFake(time.Unix(1000, 0))
	return NewLocal(c, clock.Sequence(1)), c
}

func TestMessagesKeepOrderAndKind(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	w, r := open(t, l, 2)
	done := make(chan error, 1)
	go func() {
		for i := range 500 {
			if err := w.Write(context.Background(), Message{Data: fmt.Appendf(nil, "%d", i), Binary: i%2 == 1}); err != nil {
				done <- err
				return
			}
		}
		done <- w.Close()
	}()
	for i := range 500 {
		m, err := r.Read(t.Context())
		if err != nil || string(m.Data) != fmt.Sprint(i) || m.Binary != (i%2 == 1) {
			t.Fatalf("message %d = %q, %v, %v", i, m.Data, m.Binary, err)
		}
	}
	for range 2 {
		if _, err := r.Read(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("error = %v, want io.EOF", err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(l.open) != 0 {
		t.Error("a finished channel is kept")
	}
}

func TestWriterWaitsWhileTheBufferIsFull(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	w, r := open(t, l, 1)
	if err := w.Write(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, Message{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), Message{}); !errors.Is(err, ErrReaderGone) {
		t.Errorf("error = %v, want ErrReaderGone", err)
	}
}

func TestReaderLeavingWakesAWaitingWriter(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	w, r := open(t, l, 1)
	if err := w.Write(t.Context(), Message{}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- w.Write(context.Background(), Message{}) }()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrReaderGone) {
		t.Errorf("error = %v", err)
	}
}

func TestClosedWriter(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	w, r := open(t, l, 4)
	if err := w.Write(t.Context(), Message{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), Message{}); !errors.Is(err, ErrClosed) {
		t.Errorf("error = %v, want ErrClosed", err)
	}
	if m, err := r.Read(t.Context()); err != nil || string(m.Data) != "x" {
		t.Errorf("what was written is lost: %q, %v", m.Data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, r2 := open(t, l, 1)
	if _, err := r2.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestEndsAreTakenOnceAndOnlyByTheirRef(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	wref, rref, err := l.Create(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]Ref{
		"other id":        {ChannelID: "x", AccessKey: wref.AccessKey, Direction: Write},
		"other key":       {ChannelID: wref.ChannelID, AccessKey: "x", Direction: Write},
		"other direction": rref,
	} {
		if _, err := l.OpenWriter(ref); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error = %v, want ErrUnknown", name, err)
		}
	}
	if _, err := l.OpenReader(wref); !errors.Is(err, ErrUnknown) {
		t.Errorf("error = %v, want ErrUnknown", err)
	}
	for _, want := range []error{nil, ErrTaken} {
		if _, err := l.OpenWriter(wref); !errors.Is(err, want) {
			t.Errorf("writer: error = %v, want %v", err, want)
		}
		if _, err := l.OpenReader(rref); !errors.Is(err, want) {
			t.Errorf("reader: error = %v, want %v", err, want)
		}
	}
}

func TestHalfOpenChannelsAreDropped(t *testing.T) {
	t.Parallel()
	l, c := newLocal()
	wref, rref, err := l.Create(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.OpenWriter(wref)
	if err != nil {
		t.Fatal(err)
	}
	fw, fr := open(t, l, 1)
	c.Advance(OpenWithin)
	if _, err := l.OpenReader(rref); !errors.Is(err, ErrUnknown) {
		t.Errorf("error = %v, want ErrUnknown", err)
	}
	if err := w.Write(t.Context(), Message{}); !errors.Is(err, ErrReaderGone) {
		t.Errorf("error = %v, want ErrReaderGone", err)
	}
	if err := fw.Write(t.Context(), Message{Data: []byte("y")}); err != nil {
		t.Error(err)
	}
	if m, err := fr.Read(t.Context()); err != nil || string(m.Data) != "y" {
		t.Errorf("a fully opened channel was dropped: %v", err)
	}
}

func TestCreateEndpoint(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	for _, data := range []string{`{}`, `{"buffer_size":null}`, `{"buffer_size":0}`, `{"buffer_size":100000}`} {
		out, err := Endpoints(l)[FunctionCreate].Handle(t.Context(), &bus.Call{Data: json.RawMessage(data)})
		if err != nil {
			t.Fatal(err)
		}
		var r createResponse
		if err := json.Unmarshal(out, &r); err != nil || r.Writer.Direction != Write || r.Reader.Direction != Read || r.Writer.ChannelID != r.Reader.ChannelID {
			t.Errorf("%s: %s, %v", data, out, err)
		}
	}
}

func TestReaderThatLeftBeforeTheWriterCame(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	wref, rref, err := l.Create(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenReader(rref)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := l.OpenWriter(wref)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), Message{}); !errors.Is(err, ErrReaderGone) {
		t.Errorf("error = %v, want ErrReaderGone", err)
	}
	if len(l.open) != 0 {
		t.Error("a finished channel is kept")
	}
}
