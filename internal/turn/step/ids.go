package step

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// derive is an id of [a-z0-9_] that depends on nothing but its parts. Parts
// are length-prefixed, so that no two lists give one text.
func derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return prefix + "_" + hex.EncodeToString(h.Sum(nil))[:24]
}

// RunID names the run that a message started.
func RunID(startedAtMS int64, messageID string) string {
	sum := sha256.Sum256([]byte(messageID))
	return strconv.FormatInt(startedAtMS, 10) + "_" + hex.EncodeToString(sum[:4])
}

// CallID is the id of the call in a block of an assistant message.
func CallID(session, run string, turn int64, block int) string {
	return derive("call", session, run, strconv.FormatInt(turn, 10), strconv.Itoa(block))
}

// UserEntryID is the transcript entry of a message of run::start.
func UserEntryID(session, messageID string, index int) string {
	return derive("user", session, messageID, strconv.Itoa(index))
}

// EntryID is the transcript entry of what a turn itself says. What tells
// entries of one role in one turn apart: a call id, or a word.
func EntryID(session, run string, turn int64, role, what string) string {
	return derive("entry", session, run, strconv.FormatInt(turn, 10), role, what)
}

// InboxEntryID is the transcript entry of an inbox item.
func InboxEntryID(session, itemID string) string { return derive("inbox", session, itemID) }

// InterruptedEntryID is the transcript entry that closes a call which a crash
// or a foreign writer left open.
func InterruptedEntryID(session, callID string) string {
	return derive("entry", session, "interrupted", callID)
}

// EventID is the id of the nth event of a run.
func EventID(run string, n int64) string { return run + "-" + strconv.FormatInt(n, 10) }

// ReservationID is the reservation of one model call.
func ReservationID(run string, turn, retry int64) string {
	return fmt.Sprintf("%s_%d_%d", run, turn, retry)
}

// RequestID names a run towards a provider.
func RequestID(session string, startedAtMS int64) string {
	return session + ":" + strconv.FormatInt(startedAtMS, 10)
}

// TimerID names what wakes a turn: approval, result or wait, and of what.
func TimerID(session, run, kind, what string) string {
	return strings.Join([]string{"turn", session, run, kind, what}, "/")
}

// ArgsHash binds an approval to a function and its arguments. It does not
// depend on the order of members or on space.
func ArgsHash(functionID string, args json.RawMessage) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(functionID), functionID)
	h.Write(canonical(args))
	return hex.EncodeToString(h.Sum(nil))
}

// canonical is JSON with sorted members and without space; digits of numbers
// stay as they are. What is no JSON stays as it is.
func canonical(raw json.RawMessage) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	return encode(v)
}
