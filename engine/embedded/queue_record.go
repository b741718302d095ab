package embedded

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/queue"
)

// The buckets of queues and timers; keys of a queue are its name, NUL and a
// number of eight bytes that grows with every message.
var (
	// name -> queue.Config as JSON
	queueBucket = []byte("queue")
	// (queue) number -> storedMessage
	messageBucket = []byte("queue_message")
	// (queue) number -> storedReceives
	receiveBucket = []byte("queue_receive")
	// (queue) number -> storedMessage with its end
	deadBucket = []byte("queue_dead")
	// minute (queue) hash -> storedDedup
	dedupBucket = []byte("queue_dedup")
)

// messageFormat is the first byte of the records of queues and timers.
const messageFormat = 1

// Flags of a storedMessage.
const (
	hasEnd   = 1
	external = 2
	hasSpill = 4
)

// storedMessage is a message as it lies in a bucket: waiting, in flight, given
// up or on a timer.
type storedMessage struct {
	queue.Message
	ID     string
	SentAt int64 // epoch ms
	// Of dead letters.
	Error    string
	FailedAt int64 // epoch ms, 0 unless it is a dead letter
	Receives int
	// Data above state.InlineLimit lies in a file of its own, and Data is nil.
	file     string
	fileSize int64
	fileSum  uint32
}

// encode gives the stored form. The data stays as it was sent.
func (m *storedMessage) encode(key []byte) ([]byte, error) {
	principal, err := json.Marshal(m.Principal)
	if err != nil {
		return nil, fmt.Errorf("encode principal: %w", err)
	}
	b := make([]byte, 0, len(m.Data)+len(principal)+len(m.FunctionID)+len(m.Baggage)+256)
	flags := byte(0)
	if m.FailedAt != 0 {
		flags |= hasEnd
	}
	if m.External {
		flags |= external
	}
	if m.file != "" {
		flags |= hasSpill
	}
	b = append(b, messageFormat, flags)
	// The group comes first: it is all that is read when the file is opened.
	for _, s := range []string{m.Group, m.ID, m.ReceiptID, m.FunctionID, m.Namespace, m.DedupID, m.Traceparent, m.Baggage, string(principal)} {
		b = appendText(b, s)
	}
	b = binary.AppendVarint(b, m.SentAt)
	if m.FailedAt != 0 {
		b = appendText(b, m.Error)
		b = binary.AppendVarint(b, m.FailedAt)
		b = binary.AppendUvarint(b, uint64(m.Receives))
	}
	if m.file != "" {
		b = appendText(b, m.file)
		b = binary.AppendVarint(b, m.fileSize)
		b = binary.BigEndian.AppendUint32(b, m.fileSum)
		return sealMessage(key, b), nil
	}
	return sealMessage(key, append(b, m.Data...)), nil
}

// decodeMessage is the inverse of encode; name is the queue. Nothing points
// into data.
func decodeMessage(name string, key, data []byte) (storedMessage, error) {
	in, err := unsealMessage(key, data)
	if err != nil {
		return storedMessage{}, err
	}
	m := storedMessage{Message: queue.Message{Queue: name}}
	flags := in.byte()
	m.External = flags&external != 0
	var principal string
	for _, s := range []*string{&m.Group, &m.ID, &m.ReceiptID, &m.FunctionID, &m.Namespace, &m.DedupID, &m.Traceparent, &m.Baggage, &principal} {
		*s = in.text()
	}
	m.SentAt = in.varint()
	if flags&hasEnd != 0 {
		m.Error = in.text()
		m.FailedAt = in.varint()
		m.Receives = int(in.uvarint())
	}
	if flags&hasSpill != 0 {
		m.file, m.fileSize, m.fileSum = in.text(), in.varint(), in.uint32()
		in.bad = in.bad || m.file == "" || len(in.b) > 0
	} else {
		m.Data = append(json.RawMessage{}, in.b...)
	}
	if in.bad {
		return storedMessage{}, errRecord
	}
	if err := json.Unmarshal([]byte(principal), &m.Principal); err != nil {
		return storedMessage{}, fmt.Errorf("decode principal: %w", err)
	}
	return m, nil
}

// messageGroup reads the group alone.
func messageGroup(key, data []byte) (string, error) {
	in, err := unsealMessage(key, data)
	if err != nil {
		return "", err
	}
	in.byte()
	group := in.text()
	if in.bad {
		return "", errRecord
	}
	return group, nil
}

// storedReceives is what is known of the receives of a message; absent means
// that there was none, or one in the process that sent it.
type storedReceives struct {
	// Count is the receives that have ended and count.
	Count int
	// Held is how often it was handed out without an end since.
	Held int
	// VisibleAt is the end of the backoff, epoch ms; 0 for none.
	VisibleAt int64
	// Error is that of the last failed receive.
	Error string
}

func (r storedReceives) encode(key []byte) []byte {
	b := []byte{messageFormat}
	b = binary.AppendUvarint(b, uint64(r.Count))
	b = binary.AppendUvarint(b, uint64(r.Held))
	b = binary.AppendVarint(b, r.VisibleAt)
	return sealMessage(key, appendText(b, r.Error))
}

func decodeReceives(key, data []byte) (storedReceives, error) {
	in, err := unsealMessage(key, data)
	if err != nil {
		return storedReceives{}, err
	}
	r := storedReceives{Count: int(in.uvarint()), Held: int(in.uvarint()), VisibleAt: in.varint(), Error: in.text()}
	if in.bad {
		return storedReceives{}, errRecord
	}
	return r, nil
}

// storedDedup is what was sent under a dedup id.
type storedDedup struct {
	SentAt int64 // epoch ms
	ID     string
}

func (d storedDedup) encode(key []byte) []byte {
	b := binary.AppendVarint([]byte{messageFormat}, d.SentAt)
	return sealMessage(key, appendText(b, d.ID))
}

func decodeDedup(key, data []byte) (storedDedup, error) {
	in, err := unsealMessage(key, data)
	if err != nil {
		return storedDedup{}, err
	}
	d := storedDedup{SentAt: in.varint(), ID: in.text()}
	if in.bad {
		return storedDedup{}, errRecord
	}
	return d, nil
}

// sealMessage appends a checksum that covers the key too.
func sealMessage(key, body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, recordSum(key, body))
}

// unsealMessage checks the checksum and the format and gives what follows them.
func unsealMessage(key, data []byte) (reader, error) {
	if len(data) < 5 {
		return reader{}, errRecord
	}
	body, sum := data[:len(data)-4], binary.BigEndian.Uint32(data[len(data)-4:])
	if recordSum(key, body) != sum {
		return reader{}, errChecksum
	}
	if body[0] != messageFormat {
		return reader{}, errRecord
	}
	return reader{b: body[1:]}, nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// numbered is the key of a message.
func numbered(name string, n uint64) []byte {
	b := make([]byte, 0, len(name)+9)
	return binary.BigEndian.AppendUint64(append(append(b, name...), separator), n)
}

// takeNumbered is the inverse of numbered.
func takeNumbered(key []byte) (name string, n uint64, ok bool) {
	i := len(key) - 9
	if i < 1 || key[i] != separator {
		return "", 0, false
	}
	return string(key[:i]), binary.BigEndian.Uint64(key[i+1:]), true
}
