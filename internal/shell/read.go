package shell

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
)

// A file flows in messages of readChunk bytes; readAhead of them wait for the
// reader.
const (
	readChunk = 64 << 10
	readAhead = 8
)

// ReadResponse points at the bytes of a file.
type ReadResponse struct {
	Content channel.Ref `json:"content"`
	// Size is that of the file when it was opened.
	Size  int64  `json:"size"`
	Mode  string `json:"mode,omitempty"`
	MTime int64  `json:"mtime,omitempty"` // epoch milliseconds
}

// read opens a file; its bytes flow through the channel as the reader takes
// them, and stop when it leaves.
func (s *Shell) read(ctx context.Context, _ *bus.Call, r pathRequest) (ReadResponse, error) {
	if r.Path == "" {
		return ReadResponse{}, bus.Missing("path")
	}
	if err := s.begin(); err != nil {
		return ReadResponse{}, err
	}
	file, info, rel, err := s.folder.open(r.Path)
	if err != nil {
		s.wg.Done()
		return ReadResponse{}, err
	}
	ref, w, err := s.channel(ctx, rel, info.IsDir())
	if err != nil {
		s.wg.Done()
		s.shut(rel, file)
		return ReadResponse{}, err
	}
	go func() {
		defer s.wg.Done()
		s.pump(rel, file, w)
	}()
	return ReadResponse{Content: ref, Size: info.Size(), Mode: info.Mode().String(), MTime: clock.Millis(info.ModTime())}, nil
}

// channel makes the channel that a file flows through.
func (s *Shell) channel(ctx context.Context, rel string, dir bool) (channel.Ref, channel.Writer, error) {
	if dir {
		return channel.Ref{}, nil, &Error{Code: CodeKind, Type: "is_a_directory", Message: clip(rel) + " is a folder", Fix: "list it with shell::fs::ls"}
	}
	wref, rref, err := s.deps.Channels.Create(ctx, readAhead)
	if err != nil {
		return channel.Ref{}, nil, err
	}
	w, err := s.deps.Channels.OpenWriter(wref)
	return rref, w, err
}

// pump writes a file into its channel.
func (s *Shell) pump(rel string, file *os.File, w channel.Writer) {
	defer s.shut(rel, file)
	defer s.shut(rel, w)
	for {
		buf := make([]byte, readChunk) // the reader keeps it
		n, err := file.Read(buf)
		if n > 0 {
			if werr := w.Write(s.ctx, channel.Message{Data: buf[:n], Binary: true}); werr != nil {
				return // the reader has what it wanted
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.deps.Logger.Warn("file not read to its end", "path", rel, "error", err)
			return
		}
	}
}

// shut closes what belongs to a file or command.
func (s *Shell) shut(of string, c io.Closer) {
	if err := c.Close(); err != nil {
		s.deps.Logger.Warn("not closed", "of", of, "error", err)
	}
}
