package protocol

import "fmt"

// ChunkKind is the stable code of a ChunkError.
type ChunkKind string

// The kinds. From ChunkBadNumber on they give the whole message up; its later pieces are refused with ChunkDropped.
const (
	// ChunkDuplicate is a piece that came before with the same text, or of a message that is complete. Nothing changes.
	ChunkDuplicate ChunkKind = "chunk_duplicate"
	// ChunkTooManyOpen is the first piece of one message too many. Nothing is kept of it.
	ChunkTooManyOpen ChunkKind = "chunk_too_many_open"
	// ChunkDropped is a piece of a message that was given up before.
	ChunkDropped ChunkKind = "chunk_dropped"
	// ChunkBadID is an id that is empty or too long.
	ChunkBadID ChunkKind = "chunk_bad_id"
	// ChunkBadNumber is an n or of outside its bounds, or an of other than that of the pieces before.
	ChunkBadNumber ChunkKind = "chunk_bad_number"
	// ChunkBadData is a piece that is empty, too large, or not UTF-8.
	ChunkBadData ChunkKind = "chunk_bad_data"
	// ChunkMismatch is a piece that came before with another text.
	ChunkMismatch ChunkKind = "chunk_mismatch"
	// ChunkMessageTooLarge is a message above MaxChunkedMessage.
	ChunkMessageTooLarge ChunkKind = "chunk_message_too_large"
	// ChunkExpired is a message that stayed unfinished for ChunkTTL.
	ChunkExpired ChunkKind = "chunk_expired"
)

// ChunkError says why a piece or a whole message was not taken. It never quotes the data.
type ChunkError struct {
	ID   string // cut at MaxChunkID bytes
	N    int    // number of the piece; 0: the message
	Of   int
	Have int // with ChunkExpired: how many pieces had come
	Kind ChunkKind
}

func (e *ChunkError) Error() string {
	at := ""
	switch {
	case e.Kind == ChunkExpired:
		at = fmt.Sprintf(" with %d of %d pieces", e.Have, e.Of)
	case e.N != 0 || e.Of != 0:
		at = fmt.Sprintf(" piece %d of %d", e.N, e.Of)
	}
	return fmt.Sprintf("protocol: message %q%s: %s, want %s", e.ID[:min(len(e.ID), MaxChunkID)], at, e.Kind, e.Kind.allowed())
}

// Code returns the kind as a string.
func (e *ChunkError) ErrorCode() string { return string(e.Kind) }

// Retryable reports whether the message may be sent again as it was, under a new id.
func (e *ChunkError) Retryable() bool {
	return e.Kind == ChunkTooManyOpen || e.Kind == ChunkExpired
}

func (k ChunkKind) allowed() string {
	switch k {
	case ChunkTooManyOpen:
		return fmt.Sprintf("at most %d unfinished messages", MaxOpenChunked)
	case ChunkBadID:
		return fmt.Sprintf("an id of 1 to %d bytes", MaxChunkID)
	case ChunkBadNumber:
		return fmt.Sprintf("n from 1 to of, and the same of, at most %d, in every piece", MaxChunks)
	case ChunkBadData:
		return fmt.Sprintf("1 to %d bytes of UTF-8", MaxChunkData)
	case ChunkMessageTooLarge:
		return fmt.Sprintf("at most %d bytes", MaxChunkedMessage)
	case ChunkExpired:
		return "all pieces within " + ChunkTTL.String()
	case ChunkDropped:
		return "a new id for a new attempt"
	}
	return "every piece once"
}
