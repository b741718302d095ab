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

const readChunk = 64 << 10

// ReadResponse points at the bytes of a file.
type ReadResponse struct {
	Content channel.Ref `json:"content"`
	Size    int64       `json:"size"`
	Mode    string      `json:"mode,omitempty"`
	MTime   int64       `json:"mtime,omitempty"`
}

// read opens a file; its bytes flow through the channel as the reader takes
// them, and stop when it leaves.
func (s *Shell) read(ctx context.Context, _ *bus.Call, r pathRequest) (ReadResponse, error) {
	if r.Path == "" {
		return ReadResponse{}, bus.Missing("path")
	}
	file, info, rel, err := s.folder.open(r.Path)
	if err != nil {
		return ReadResponse{}, err
	}
	if info.IsDir() {
		return ReadResponse{}, errors.Join(&Error{Code: CodeKind, Type: "is_a_directory", Message: rel + " is a folder", Fix: "list it with shell::fs::ls"}, file.Close())
	}
	wref, rref, err := s.deps.Channels.Create(ctx, 0)
	if err != nil {
		return ReadResponse{}, errors.Join(err, file.Close())
	}
	w, err := s.deps.Channels.OpenWriter(wref)
	if err != nil {
		return ReadResponse{}, errors.Join(err, file.Close())
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		s.pump(rel, file, w)
	}()
	return ReadResponse{Content: rref, Size: info.Size(), Mode: info.Mode().String(), MTime: clock.Millis(info.ModTime())}, nil
}

func (s *Shell) pump(rel string, file *os.File, w channel.Writer) {
	defer file.Close()
	defer func() {
		if err := w.Close(); err != nil {
			s.deps.Logger.Warn("channel not closed", "path", rel, "error", err)
		}
	}()
	for {
		buf := make([]byte, readChunk)
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
			s.deps.Logger.Warn("file read failed", "path", rel, "error", err)
			return
		}
	}
}
