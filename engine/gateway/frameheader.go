package gateway

import (
	"encoding/binary"
	"fmt"

	"github.com/coder/websocket"
)

// limits bound what one socket may send and be sent, in bytes.
type limits struct {
	frame, message int
	// text: binary messages are refused.
	text bool
}

// violation is what a peer did that ends its socket.
type violation struct {
	code   websocket.StatusCode
	reason string
}

func (v *violation) Error() string { return "gateway: " + v.reason }

// opcodes of RFC 6455 section 5.2, as far as limits need them.
const (
	opContinuation = 0x0
	opBinary       = 0x2
	opControl      = 0x8 // and above
)

// frames follows the frames in a stream of bytes and judges each by its header,
// before any of its payload is kept. Broken headers are for the WebSocket
// library to refuse.
type frames struct {
	limits limits
	head   []byte // of the frame that begins
	// left is what is still to come of the frame's payload.
	left    uint64
	message uint64 // payload of the message so far
	bad     bool   // the message breaks a limit
	skipped bool   // so does the frame; what is left of it is not for the library
}

// skim reads on in p and returns how many bytes it took: some of one header or
// of one payload. A violation comes with the last byte of the length; the frame
// is skipped then, and so is what follows of its message.
func (f *frames) skim(p []byte) (n int, v *violation) {
	if f.left > 0 {
		n = int(min(f.left, uint64(len(p))))
		f.left -= uint64(n)
		return n, nil
	}
	for n < len(p) {
		f.head = append(f.head, p[n])
		n++
		if len(f.head) < headLen(f.head) {
			continue
		}
		v = f.begin()
		f.head = f.head[:0]
		return n, v
	}
	return n, nil
}

// headLen is how long a header is without its mask, by its first bytes.
func headLen(head []byte) int {
	if len(head) < 2 {
		return 2
	}
	switch head[1] &^ 0x80 {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

// begin judges the frame whose header is complete.
func (f *frames) begin() *violation {
	size := uint64(f.head[1] &^ 0x80)
	switch len(f.head) {
	case 4:
		size = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 10:
		size = binary.BigEndian.Uint64(f.head[2:])
	}
	f.left = min(size, 1<<62) // what is more is no length at all
	if f.head[1]&0x80 != 0 {
		f.left += 4
	}
	f.skipped = false
	op := f.head[0] & 0x0f
	if op >= opControl {
		return nil
	}
	if op != opContinuation {
		f.message, f.bad = 0, false
	}
	f.message += min(size, 1<<62-f.message)
	f.skipped = f.bad
	if f.bad {
		return nil
	}
	v := f.judge(op, size)
	f.bad = v != nil
	f.skipped = f.bad
	return v
}

func (f *frames) judge(op byte, size uint64) *violation {
	switch {
	case op == opBinary && f.limits.text:
		return &violation{websocket.StatusUnsupportedData, "binary messages are not taken"}
	case size > uint64(f.limits.frame):
		return &violation{websocket.StatusMessageTooBig, fmt.Sprintf("a frame has at most %d bytes", f.limits.frame)}
	case f.message > uint64(f.limits.message):
		return &violation{websocket.StatusMessageTooBig, fmt.Sprintf("a message has at most %d bytes", f.limits.message)}
	}
	return nil
}
