package shell

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/blob"
)

// MaxOutput is how many bytes of each output a result has; maxKept is how many
// are kept.
const (
	MaxOutput = 1 << 20
	maxKept   = 16 << 20
)

// capture keeps the first maxKept bytes and swallows the rest, so that a
// command is never blocked by its output.
type capture struct {
	buf   bytes.Buffer
	total int64
}

func (c *capture) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	if room := maxKept - c.buf.Len(); room > 0 {
		c.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// keep cuts an output at the limit and puts the whole into a blob of the
// session, if there is one. The command has run: an output that cannot be kept
// is no reason to say that it failed.
func (s *Shell) keep(session string, c *capture) (string, *blob.Ref) {
	all := c.buf.Bytes()
	if len(all) <= MaxOutput {
		return valid(all), nil
	}
	cut := valid(wholeRunes(all[:MaxOutput]))
	if session == "" || s.deps.Blobs == nil {
		return cut, nil
	}
	mime := "text/plain; charset=utf-8"
	if !utf8.Valid(wholeRunes(all)) {
		mime = "application/octet-stream"
	}
	info, err := s.deps.Blobs.Put(s.ctx, session, mime, bytes.NewReader(all))
	if err != nil {
		s.deps.Logger.Warn("output of a command not kept", "session", session, "bytes", len(all), "error", err)
		return cut, nil
	}
	return cut, &blob.Ref{Blob: info}
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// wholeRunes is b without the beginning of a rune at its end.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= min(len(b), utf8.UTFMax); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}
