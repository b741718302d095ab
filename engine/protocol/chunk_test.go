package protocol

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// join decodes chunk frames and puts their data together in the order given.
func join(t *testing.T, chunks [][]byte, id string) string {
	t.Helper()
	var text strings.Builder
	for i, encoded := range chunks {
		if len(encoded) > GatewayMaxFrame {
			t.Errorf("chunk %d has %d bytes", i+1, len(encoded))
		}
		frame, err := Decode(encoded)
		if err != nil {
			t.Fatalf("chunk %d: %v", i+1, err)
		}
		c, ok := frame.(*Chunk)
		if !ok || c.ID != id || c.N != i+1 || c.Of != len(chunks) {
			t.Fatalf("chunk %d: got %T %q %d of %d", i+1, frame, c.ID, c.N, c.Of)
		}
		if len(c.Data) > MaxChunkData || c.Data == "" || !utf8.ValidString(c.Data) {
			t.Errorf("chunk %d: %d bytes of data", i+1, len(c.Data))
		}
		text.WriteString(c.Data)
	}
	return text.String()
}

func TestSplit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, frame string
		want        int // chunks
	}{
		{"small", `{"type":"ping"}`, 1},
		{"one full piece", strings.Repeat("x", MaxChunkData), 1},
		{"one byte more", strings.Repeat("x", MaxChunkData+1), 2},
		{"quotes double", strings.Repeat(`"`, MaxChunkData), 2},
		{"backslashes at the limit of a frame", strings.Repeat(`\`, GatewayMaxFrame), 3},
		{"control characters", strings.Repeat("\x01", MaxChunkData), 5},
		{"many", strings.Repeat("01234567", 1<<15), 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id := strings.Repeat(`"`, MaxChunkID)
			chunks, err := Split([]byte(tt.frame), id)
			if err != nil {
				t.Fatal(err)
			}
			if len(chunks) != tt.want {
				t.Errorf("got %d chunks, want %d", len(chunks), tt.want)
			}
			if join(t, chunks, id) != tt.frame {
				t.Error("the pieces are not the frame")
			}
		})
	}
}

// F25: no piece ends inside a rune, wherever the limit falls.
func TestF25SplitKeepsRunesWhole(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"é", "€", "😀", "👩‍👩‍👧"} {
		for pad := range 8 {
			frame := strings.Repeat("x", pad) + strings.Repeat(r, 2*MaxChunkData/len(r))
			chunks, err := Split([]byte(frame), "c")
			if err != nil {
				t.Fatal(err)
			}
			if join(t, chunks, "c") != frame {
				t.Errorf("%s after %d: the pieces are not the frame", r, pad)
			}
		}
	}
}

func TestSplitRandomText(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aé€😀\"\\\n\x01{}[]:,0\u2028")
	for range 8 {
		var text strings.Builder
		for range rnd.IntN(4 * MaxChunkData) {
			text.WriteRune(alphabet[rnd.IntN(len(alphabet))])
		}
		text.WriteByte('.')
		chunks, err := Split([]byte(text.String()), "c")
		if err != nil {
			t.Fatal(err)
		}
		if join(t, chunks, "c") != text.String() {
			t.Error("the pieces are not the frame")
		}
	}
}

func TestSplitErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		frame []byte
		id    string
		want  ChunkKind
	}{
		"no id":     {[]byte("x"), "", ChunkBadID},
		"long id":   {[]byte("x"), strings.Repeat("x", MaxChunkID+1), ChunkBadID},
		"empty":     {nil, "c", ChunkBadData},
		"not UTF-8": {[]byte("\xff"), "c", ChunkBadData},
		"too large": {bytes.Repeat([]byte("x"), MaxChunkedMessage+1), "c", ChunkMessageTooLarge},
	} {
		chunks, err := Split(tt.frame, tt.id)
		var got *ChunkError
		if !errors.As(err, &got) || got.Kind != tt.want || chunks != nil {
			t.Errorf("%s: got %d chunks, %v", name, len(chunks), err)
		}
	}
}

func TestChunkErrorText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err       ChunkError
		want      string
		retryable bool
	}{
		{ChunkError{ID: "c", N: 2, Of: 3, Kind: ChunkDuplicate}, `protocol: message "c" piece 2 of 3: chunk_duplicate, want every piece once`, false},
		{ChunkError{ID: "c", N: 2, Of: 3, Kind: ChunkMismatch}, `protocol: message "c" piece 2 of 3: chunk_mismatch, want every piece once`, false},
		{ChunkError{ID: "c", N: 1, Of: 3, Kind: ChunkTooManyOpen}, `protocol: message "c" piece 1 of 3: chunk_too_many_open, want at most 8 unfinished messages`, true},
		{ChunkError{ID: "c", N: 1, Of: 3, Kind: ChunkDropped}, `protocol: message "c" piece 1 of 3: chunk_dropped, want a new id for a new attempt`, false},
		{ChunkError{Kind: ChunkBadID}, `protocol: message "": chunk_bad_id, want an id of 1 to 64 bytes`, false},
		{ChunkError{ID: "c", N: 4, Of: 3, Kind: ChunkBadNumber}, `protocol: message "c" piece 4 of 3: chunk_bad_number, want n from 1 to of, and the same of, at most 20480, in every piece`, false},
		{ChunkError{ID: "c", N: 1, Of: 3, Kind: ChunkBadData}, `protocol: message "c" piece 1 of 3: chunk_bad_data, want 1 to 24576 bytes of UTF-8`, false},
		{ChunkError{ID: "c", N: 1, Of: 3, Kind: ChunkMessageTooLarge}, `protocol: message "c" piece 1 of 3: chunk_message_too_large, want at most 20971520 bytes`, false},
		{ChunkError{ID: "c", Of: 3, Have: 2, Kind: ChunkExpired}, `protocol: message "c" with 2 of 3 pieces: chunk_expired, want all pieces within 1m0s`, true},
		{ChunkError{ID: strings.Repeat("x", 99), Kind: ChunkBadID}, `protocol: message "` + strings.Repeat("x", 64) + `": chunk_bad_id, want an id of 1 to 64 bytes`, false},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if tt.err.Retryable() != tt.retryable || tt.err.ErrorCode() != string(tt.err.Kind) {
			t.Errorf("%s: code %q, retryable %t", tt.err.Kind, tt.err.ErrorCode(), tt.err.Retryable())
		}
	}
}
