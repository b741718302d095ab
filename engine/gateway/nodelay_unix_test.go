//go:build unix

package gateway

import (
	"net"
	"syscall"
	"testing"
)

func TestSmallFramesDoNotWaitForAcknowledgements(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.raw("/", "").message()
	tcp, ok := r.only().wire.Conn.(*net.TCPConn)
	if !ok {
		t.Fatal("no TCP connection")
	}
	under, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := 0
	var operr error
	if err := under.Control(func(fd uintptr) {
		value, operr = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	}); err != nil || operr != nil || value == 0 {
		t.Errorf("TCP_NODELAY is %d, %v, %v", value, err, operr)
	}
}
