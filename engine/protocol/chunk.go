package protocol

import (
	"strconv"
	"unicode/utf8"
)

// Split cuts the text of a frame into encoded chunk frames, numbered from 1. A piece holds at most MaxChunkData bytes of
// the text and never part of a rune, and every chunk frame fits GatewayMaxFrame, also where quotes double when escaped.
// The error is a *ChunkError: the id is empty or too long, the frame is empty, too large, or not UTF-8.
func Split(frame []byte, id string) ([][]byte, error) {
	switch {
	case !validChunkID(id):
		return nil, &ChunkError{ID: id, Kind: ChunkBadID}
	case len(frame) > MaxChunkedMessage:
		return nil, &ChunkError{ID: id, Kind: ChunkMessageTooLarge}
	case len(frame) == 0 || !utf8.Valid(frame):
		return nil, &ChunkError{ID: id, Kind: ChunkBadData}
	}
	quotedID := string(appendString(nil, id))
	const numbers = 2 * len("20480") // n and of, at most MaxChunks
	room := GatewayMaxFrame - numbers - len(quotedID) - len(`{"type":"chunk","id":,"n":,"of":,"data":""}`)
	var ends []int
	for at := 0; at < len(frame); {
		at = pieceEnd(frame, at, room)
		ends = append(ends, at)
	}
	chunks := make([][]byte, len(ends))
	start := 0
	for i, end := range ends {
		out := make([]byte, 0, end-start+(end-start)/8+len(quotedID)+64)
		out = append(out, `{"type":"chunk","id":`...)
		out = append(out, quotedID...)
		out = append(out, `,"n":`...)
		out = strconv.AppendInt(out, int64(i+1), 10)
		out = append(out, `,"of":`...)
		out = strconv.AppendInt(out, int64(len(ends)), 10)
		out = append(out, `,"data":`...)
		out = appendString(out, string(frame[start:end]))
		chunks[i] = append(out, '}')
		start = end
	}
	return chunks, nil
}

// pieceEnd returns where the piece that starts at i ends: after MaxChunkData bytes or where the escaped text fills room,
// at a rune boundary.
func pieceEnd(b []byte, i, room int) int {
	limit := min(len(b), i+MaxChunkData)
	for i < limit {
		size, written := 1, 0
		if b[i] < utf8.RuneSelf {
			written = escapedLen(b[i])
		} else {
			_, size = utf8.DecodeRune(b[i:])
			written = size
		}
		if i+size > limit || written > room {
			return i
		}
		i += size
		room -= written
	}
	return i
}

func validChunkID(id string) bool { return id != "" && len(id) <= MaxChunkID }
