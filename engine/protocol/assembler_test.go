package protocol

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type testClock struct{ now time.Time }

func (c *testClock) Now() time.Time { return c.now }

// add gives a piece to the assembler and returns the text and the kind of the error.
func add(t *testing.T, a *Assembler, id string, n, of int, data string) (string, ChunkKind) {
	t.Helper()
	text, err := a.Add(&Chunk{ID: id, N: n, Of: of, Data: data})
	if err == nil {
		return string(text), ""
	}
	var ce *ChunkError
	if !errors.As(err, &ce) || text != nil {
		t.Fatalf("got %q, %v", text, err)
	}
	return "", ce.Kind
}

func TestAssembler(t *testing.T) {
	t.Parallel()
	type step struct {
		id      string
		n, of   int
		data    string
		want    string    // text that is complete
		failure ChunkKind // or the error
	}
	full := strings.Repeat("x", MaxChunkData)
	tests := []struct {
		name  string
		steps []step
		open  int
	}{
		{"one piece", []step{{"a", 1, 1, "x", "x", ""}}, 0},
		{"in order", []step{{"a", 1, 2, "x", "", ""}, {"a", 2, 2, "y", "xy", ""}}, 0},
		{"out of order", []step{{"a", 3, 3, "z", "", ""}, {"a", 1, 3, "x", "", ""}, {"a", 2, 3, "y", "xyz", ""}}, 0},
		{"interleaved", []step{{"a", 1, 2, "x", "", ""}, {"b", 1, 2, "1", "", ""}, {"a", 2, 2, "y", "xy", ""}, {"b", 2, 2, "2", "12", ""}}, 0},
		{"a gap stays open", []step{{"a", 1, 3, "x", "", ""}, {"a", 3, 3, "z", "", ""}}, 1},
		{
			"a piece of what is complete does no harm",
			[]step{{"a", 1, 2, "x", "", ""}, {"a", 2, 2, "y", "xy", ""}, {"a", 1, 2, "x", "", ChunkDuplicate}, {"a", 2, 2, "z", "", ChunkDuplicate}}, 0,
		},
		{"a duplicate does no harm", []step{{"a", 1, 2, "x", "", ""}, {"a", 1, 2, "x", "", ChunkDuplicate}, {"a", 2, 2, "y", "xy", ""}}, 0},
		{
			"a duplicate that differs ends the message",
			[]step{{"a", 1, 2, "x", "", ""}, {"a", 1, 2, "z", "", ChunkMismatch}, {"a", 2, 2, "y", "", ChunkDropped}}, 1,
		},
		{"another of", []step{{"a", 1, 2, "x", "", ""}, {"a", 2, 3, "y", "", ChunkBadNumber}, {"a", 2, 2, "y", "", ChunkDropped}}, 1},
		{"n 0", []step{{"a", 0, 2, "x", "", ChunkBadNumber}}, 1},
		{"n above of", []step{{"a", 3, 2, "x", "", ChunkBadNumber}}, 1},
		{"of 0", []step{{"a", 0, 0, "x", "", ChunkBadNumber}}, 1},
		{"of negative", []step{{"a", 1, -1, "x", "", ChunkBadNumber}}, 1},
		{"of too large", []step{{"a", 1, MaxChunks + 1, "x", "", ChunkBadNumber}}, 1},
		{"largest of", []step{{"a", MaxChunks, MaxChunks, "x", "", ""}}, 1},
		{"empty piece", []step{{"a", 1, 2, "", "", ChunkBadData}}, 1},
		{"largest piece", []step{{"a", 1, 1, full, full, ""}}, 0},
		{"piece too large", []step{{"a", 1, 1, full + "x", "", ChunkBadData}}, 1},
		{"cut rune", []step{{"a", 1, 2, "\xc3", "", ChunkBadData}}, 1},
		{"no id", []step{{"", 1, 1, "x", "", ChunkBadID}}, 0},
		{"long id", []step{{strings.Repeat("x", MaxChunkID+1), 1, 1, "x", "", ChunkBadID}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := &testClock{now: time.Unix(0, 0)}
			a := NewAssembler(clock.Now, nil)
			for i, s := range tt.steps {
				if text, failure := add(t, a, s.id, s.n, s.of, s.data); text != s.want || failure != s.failure {
					t.Errorf("step %d: got %d bytes, %q; want %d bytes, %q", i, len(text), failure, len(s.want), s.failure)
				}
			}
			if a.Open() != tt.open {
				t.Errorf("%d open, want %d", a.Open(), tt.open)
			}
		})
	}
}

func TestAssemblerBoundsOpenMessages(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(0, 0)}
	a := NewAssembler(clock.Now, nil)
	for i := range MaxOpenChunked {
		if _, failure := add(t, a, fmt.Sprint(i), 1, 2, "x"); failure != "" {
			t.Fatal(failure)
		}
	}
	if _, failure := add(t, a, "more", 1, 1, "x"); failure != ChunkTooManyOpen {
		t.Errorf("got %q", failure)
	}
	if text, failure := add(t, a, "0", 2, 2, "y"); text != "xy" {
		t.Errorf("got %q, %q", text, failure)
	}
	if text, failure := add(t, a, "more", 1, 1, "x"); text != "x" {
		t.Errorf("after one was done: got %q, %q", text, failure)
	}
}

func TestAssemblerForgetsCompleteMessages(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(0, 0)}
	a := NewAssembler(clock.Now, nil)
	for i := range 2 * maxDone {
		if text, failure := add(t, a, fmt.Sprint(i), 1, 1, "x"); text != "x" {
			t.Fatal(failure)
		}
	}
	if len(a.done) > maxDone+1 || len(a.order) != len(a.done) {
		t.Errorf("%d are remembered", len(a.done))
	}
	clock.now = clock.now.Add(ChunkTTL)
	if text, failure := add(t, a, fmt.Sprint(2*maxDone-1), 1, 1, "y"); text != "y" {
		t.Errorf("an id used again after its time: %q", failure)
	}
	if len(a.done) != 1 {
		t.Errorf("%d are remembered", len(a.done))
	}
}

func TestAssemblerBoundsMessageSize(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(0, 0)}
	a := NewAssembler(clock.Now, nil)
	piece := strings.Repeat("x", MaxChunkData)
	const whole = MaxChunkedMessage / MaxChunkData // 853, and 8,192 bytes are left
	for n := 1; n <= whole; n++ {
		for _, id := range []string{"fits", "large"} {
			if _, failure := add(t, a, id, n, whole+1, piece); failure != "" {
				t.Fatal(failure)
			}
		}
	}
	left := MaxChunkedMessage - whole*MaxChunkData
	if text, failure := add(t, a, "fits", whole+1, whole+1, piece[:left]); len(text) != MaxChunkedMessage {
		t.Errorf("got %d bytes, %q", len(text), failure)
	}
	if _, failure := add(t, a, "large", whole+1, whole+1, piece[:left+1]); failure != ChunkMessageTooLarge {
		t.Errorf("got %q", failure)
	}
	if a.open["large"].pieces != nil {
		t.Error("the data of a failed message is kept")
	}
}

func TestAssemblerExpires(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(0, 0)}
	var expired []ChunkError
	a := NewAssembler(clock.Now, func(e *ChunkError) { expired = append(expired, *e) })
	add(t, a, "slow", 1, 3, "x")
	add(t, a, "failed", 9, 3, "x")
	clock.now = clock.now.Add(ChunkTTL - 1)
	add(t, a, "slow", 2, 3, "y") // does not prolong
	add(t, a, "young", 1, 2, "x")
	if len(expired) != 0 || a.Open() != 3 {
		t.Fatalf("before the time is over: %v, %d open", expired, a.Open())
	}
	clock.now = clock.now.Add(1)
	a.Expire()
	a.Expire()
	want := []ChunkError{{ID: "slow", Of: 3, Have: 2, Kind: ChunkExpired}}
	if diff := cmp.Diff(want, expired); diff != "" || a.Open() != 1 {
		t.Errorf("%d open (-want +got):\n%s", a.Open(), diff)
	}
	if text, failure := add(t, a, "young", 2, 2, "y"); text != "xy" {
		t.Errorf("got %q, %q", text, failure)
	}
	if text, failure := add(t, a, "failed", 1, 1, "x"); text != "x" {
		t.Errorf("a failed id is free again: got %q, %q", text, failure)
	}
}

func TestAssemblerAddExpires(t *testing.T) {
	t.Parallel()
	clock := &testClock{now: time.Unix(0, 0)}
	a := NewAssembler(clock.Now, nil)
	for i := range MaxOpenChunked {
		add(t, a, fmt.Sprint(i), 1, 2, "x")
	}
	clock.now = clock.now.Add(ChunkTTL)
	if text, failure := add(t, a, "0", 2, 2, "y"); text != "" || failure != "" || a.Open() != 1 {
		t.Errorf("got %q, %q, %d open", text, failure, a.Open())
	}
}

// FuzzAssembler sends one good message, shuffled, among junk on other ids. The good one must come out whole and the bounds
// must hold.
func FuzzAssembler(f *testing.F) {
	f.Add(`{"type":"ping"}`, uint64(1), []byte{0, 1, 2, 3, 200, 5, 6, 7, 8})
	f.Add("é😀\"\\ \x01", uint64(7), []byte("junkjunkjunkjunkjunkjunkjunk"))
	f.Add("x", uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, text string, seed uint64, junk []byte) {
		if text == "" || !utf8.ValidString(text) || len(text) > 1000 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := text; rest != ""; {
			cut := 0
			for cut == 0 || cut < len(rest) && rnd.IntN(4) > 0 {
				_, size := utf8.DecodeRuneInString(rest[cut:])
				cut += size
			}
			pieces = append(pieces, rest[:cut])
			rest = rest[cut:]
		}
		clock := &testClock{now: time.Unix(0, 0)}
		a := NewAssembler(clock.Now, nil)
		got := ""
		for i, n := range rnd.Perm(len(pieces)) {
			part, failure := add(t, a, "good", n+1, len(pieces), pieces[n])
			if failure != "" {
				t.Fatalf("piece %d of %d: %s", n+1, len(pieces), failure)
			}
			if (part != "") != (i == len(pieces)-1) {
				t.Fatalf("text %q after %d of %d pieces", part, i+1, len(pieces))
			}
			got += part
			for range min(4, len(junk)/3) {
				// Errors are what junk is for; the bounds are checked below.
				_, _ = a.Add(&Chunk{ID: string(rune(junk[0] % 32)), N: int(junk[1]) - 100, Of: int(junk[2]) - 100, Data: string(junk[:3])})
				junk = junk[3:]
				if a.Open() > MaxOpenChunked {
					t.Fatalf("%d open", a.Open())
				}
			}
		}
		if got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
		clock.now = clock.now.Add(ChunkTTL)
		if a.Expire(); a.Open() != 0 {
			t.Fatalf("%d open after the time is over", a.Open())
		}
	})
}
