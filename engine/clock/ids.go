package clock

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/google/uuid"
)

// IDs makes identifiers and random numbers that nobody can guess. Ids that a
// retry may have to repeat are derived from their cause instead.
type IDs interface {
	// UUID is a version 4 UUID in lower case with dashes.
	UUID() string
	// Read fills p with random bytes. It always fills it whole.
	Read(p []byte) (int, error)
}

// Random is the machine's source of ids.
func Random() IDs { return random{} }

type random struct{}

func (random) UUID() string               { return uuid.NewString() }
func (random) Read(p []byte) (int, error) { return io.ReadFull(rand.Reader, p) }

// Sequence is a deterministic source for tests: the same seed gives the same
// ids in the same order. It is safe for concurrent use.
func Sequence(seed uint64) IDs { return &sequence{seed: seed} }

type sequence struct {
	mu   sync.Mutex
	seed uint64
	n    uint64
}

func (s *sequence) UUID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.seed), s.n)
}

func (s *sequence) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(p); i += 8 {
		s.n++
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], mix(s.seed+s.n))
		copy(p[i:], b[:])
	}
	return len(p), nil
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
