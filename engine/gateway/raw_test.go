package gateway

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rawFrame is one frame as it is on the wire.
type rawFrame struct {
	fin  bool
	op   byte
	data []byte
}

// raw is a peer that makes its frames by hand.
type raw struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// raw connects with a token; behind the path may be a query.
func (r *rig) raw(path, secret string) *raw {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.http.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	auth := ""
	if secret != "" {
		auth = "Authorization: Bearer " + secret + "\r\n"
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n", path, auth)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("upgrade: %v, %v", resp, err)
	}
	return &raw{r.t, conn, in}
}

// rawBytes is a masked frame; the mask is zero.
func rawBytes(fin bool, op byte, data []byte) []byte {
	head := []byte{op, 0x80}
	if fin {
		head[0] |= 0x80
	}
	switch {
	case len(data) > 0xffff:
		head[1] |= 127
		head = binary.BigEndian.AppendUint64(head, uint64(len(data)))
	case len(data) > 125:
		head[1] |= 126
		head = binary.BigEndian.AppendUint16(head, uint16(len(data)))
	default:
		head[1] |= byte(len(data))
	}
	return append(append(head, 0, 0, 0, 0), data...)
}

func (p *raw) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *raw) text(s string) { p.t.Helper(); p.write(rawBytes(true, 1, []byte(s))) }

// read is the next frame.
func (p *raw) read() (rawFrame, error) {
	var head [10]byte
	if _, err := io.ReadFull(p.in, head[:2]); err != nil {
		return rawFrame{}, err
	}
	n := headLen(head[:2])
	if _, err := io.ReadFull(p.in, head[2:n]); err != nil {
		return rawFrame{}, err
	}
	size := uint64(head[1] & 0x7f)
	switch n {
	case 4:
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 10:
		size = binary.BigEndian.Uint64(head[2:])
	}
	f := rawFrame{head[0]&0x80 != 0, head[0] & 0x0f, make([]byte, size)}
	_, err := io.ReadFull(p.in, f.data)
	return f, err
}

func (p *raw) next() rawFrame {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// message is the next message and the sizes of its frames.
func (p *raw) message() (text string, sizes []int) {
	p.t.Helper()
	var b strings.Builder
	for {
		f := p.next()
		if f.op == 8 {
			p.t.Fatalf("closed: %q", f.data)
		}
		b.Write(f.data)
		sizes = append(sizes, len(f.data))
		if f.fin {
			return b.String(), sizes
		}
	}
}

// closed reads up to the Close frame, answers it and gives its code. The
// connection must end behind it, without a reset.
func (p *raw) closed() int {
	p.t.Helper()
	for {
		f := p.next()
		if f.op != 8 {
			continue
		}
		if len(f.data) < 2 {
			p.t.Fatal("a Close without a code")
		}
		p.write(rawBytes(true, 8, f.data))
		if _, err := p.read(); !errors.Is(err, io.EOF) {
			p.t.Errorf("behind the Close: %v", err)
		}
		return int(binary.BigEndian.Uint16(f.data))
	}
}
