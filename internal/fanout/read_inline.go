package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	// FunctionReadInline reads a file into its answer.
	FunctionReadInline = "harness::fs::read_inline"
	// defaultInline is how many bytes are read unless the caller says more or
	// less, and maxInline the most.
	defaultInline = 256 << 10
	maxInline     = 16 << 20
	readFor       = 30 * time.Second
)

// ReadInlineRequest names a file.
type ReadInlineRequest struct {
	Path string `json:"path"`
	// MaxBytes not above 0 is 262144.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// Validate names the first wrong field.
func (r ReadInlineRequest) Validate() error {
	switch {
	case r.Path == "":
		return bus.Missing("path")
	case r.MaxBytes > maxInline:
		return bus.Invalid("max_bytes", "at most 16777216")
	}
	return nil
}

// ReadInlineResponse is a file as a function result.
type ReadInlineResponse struct {
	Content   []agent.Block     `json:"content"`
	Details   ReadInlineDetails `json:"details"`
	Terminate bool              `json:"terminate"`
}

// ReadInlineDetails says how much of the file is in the content.
type ReadInlineDetails struct {
	Size      int64 `json:"size"`
	Truncated bool  `json:"truncated"`
	BytesRead int64 `json:"bytes_read"`
}

// readInline serves harness::fs::read_inline: the begin of a file as text. Bytes
// that are no UTF-8 give a line that says how many there are; a character that
// the limit has cut is left out. Errors: those of shell::fs::read, *ReadError.
func (f *Fanout) readInline(ctx context.Context, _ *bus.Call, r ReadInlineRequest) (ReadInlineResponse, error) {
	most := r.MaxBytes
	if most <= 0 {
		most = defaultInline
	}
	data, err := bus.Encode(map[string]string{"path": r.Path})
	if err != nil {
		return ReadInlineResponse{}, err
	}
	raw, err := f.Bus.Invoke(ctx, bus.Invocation{FunctionID: "shell::fs::read", Data: data, Timeout: readFor})
	if err != nil {
		return ReadInlineResponse{}, err
	}
	var reply struct {
		Content *channel.Ref `json:"content"`
		Size    *int64       `json:"size"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil || reply.Content == nil || reply.Size == nil {
		return ReadInlineResponse{}, &ReadError{Path: r.Path, Problem: "shell::fs::read gave no content and size", Err: err}
	}
	b, err := f.drain(ctx, *reply.Content, most)
	if err != nil {
		return ReadInlineResponse{}, &ReadError{Path: r.Path, Problem: "its bytes did not arrive", Err: err}
	}
	n := int64(len(b))
	text := string(whole(b, n == most))
	if !utf8.ValidString(text) {
		text = fmt.Sprintf("<binary %d bytes>", n)
	}
	return ReadInlineResponse{
		Content: []agent.Block{agent.Text(text)},
		Details: ReadInlineDetails{Size: *reply.Size, Truncated: n < *reply.Size, BytesRead: n},
	}, nil
}

// drain reads a channel to its end or up to most bytes, and leaves it.
func (f *Fanout) drain(ctx context.Context, ref channel.Ref, most int64) (b []byte, err error) {
	in, err := f.Channels.OpenReader(ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	for int64(len(b)) < most {
		m, err := in.Read(ctx)
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		b = append(b, m.Data[:min(int64(len(m.Data)), most-int64(len(b)))]...)
	}
	return b, nil
}

// whole is the bytes without the begin of a character at their end, if they may
// have been cut.
func whole(b []byte, cut bool) []byte {
	if !cut {
		return b
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// ReadError is a file that could not be read to the end.
type ReadError struct {
	Path, Problem string
	Err           error
}

// Error is the text of the error.
func (e *ReadError) Error() string {
	s := fmt.Sprintf("read %s: %s", e.Path, e.Problem)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap is the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// ErrorCode is read_failed.
func (e *ReadError) ErrorCode() string { return "read_failed" }

// Retryable reports that the same call may work later.
func (e *ReadError) Retryable() bool { return true }
