package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
)

// errUnfit: a connection that cannot take the smallest push.
var errUnfit = errors.New("viewer: connection cannot take a push")

// push posts what was collected. Errors: ErrTooLarge if several entries do not
// fit together, final ones, and those of the ports.
func (p *pump) push(ctx context.Context, b collected) error {
	err := p.send(ctx, b.epoch, b.entries)
	if !errors.Is(err, bus.ErrTooLarge) || len(b.entries) > 1 {
		return err
	}
	e := b.entries[0]
	if e.seq < 0 {
		return nil // a delta may be lost
	}
	if e.event, err = p.s.hub.pointer(ctx, p.s.id, e.event); err != nil {
		return err
	}
	if err = p.send(ctx, b.epoch, []entry{e}); errors.Is(err, bus.ErrTooLarge) {
		return errUnfit
	}
	return err
}

func (p *pump) send(ctx context.Context, epoch string, entries []entry) error {
	return p.s.hub.post(ctx, bus.Push{
		Connection: p.row.Connection,
		FunctionID: "ui::session::event::" + p.row.BrowserID,
		Data:       frame(p.s.id, epoch, entries, p.row.Batch),
	})
}

// frame is the data of a push. Events go as they are stored.
func frame(session, epoch string, entries []entry, batch bool) json.RawMessage {
	size := 128
	for _, e := range entries {
		size += len(e.event) + entryOverhead
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	buf.WriteString(`{"session_id":`)
	buf.Write(quote(session))
	buf.WriteString(`,"epoch":`)
	buf.Write(quote(epoch))
	if !batch {
		buf.WriteByte(',')
		entries[0].write(buf)
		buf.WriteByte('}')
		return buf.Bytes()
	}
	buf.WriteString(`,"events":[`)
	for i, e := range entries {
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.WriteByte('{')
		e.write(buf)
		buf.WriteByte('}')
	}
	buf.WriteString(`]}`)
	return buf.Bytes()
}

// write writes the members of an entry.
func (e entry) write(buf *bytes.Buffer) {
	buf.WriteString(`"seq":`)
	if e.seq >= 0 {
		buf.WriteString(strconv.FormatInt(e.seq, 10))
	} else {
		buf.WriteString(`null,"rev":`)
		buf.WriteString(strconv.FormatInt(e.rev, 10))
	}
	buf.WriteString(`,"event":`)
	buf.Write(e.event)
}

func quote(s string) json.RawMessage {
	b, err := bus.Encode(s)
	if err != nil {
		panic("viewer: a text that is no JSON: " + err.Error()) // every string can be
	}
	return b
}

// typeLimit bounds the event type that a pointer repeats.
const typeLimit = 128

// pointer stores an event as a blob and gives what stands in its place:
// {type, $blob}.
func (h *Hub) pointer(ctx context.Context, session string, event json.RawMessage) (json.RawMessage, error) {
	info, err := h.Blobs.Put(ctx, session, "application/json", bytes.NewReader(event))
	if err != nil {
		return nil, fmt.Errorf("viewer: store a large event: %w", err)
	}
	var head struct {
		Type string `json:"type"`
	}
	// An event of another form has no type to repeat.
	if json.Unmarshal(event, &head) != nil || len(head.Type) > typeLimit {
		head.Type = ""
	}
	return bus.Encode(struct {
		Type string    `json:"type"`
		Blob blob.Info `json:"$blob"`
	}{head.Type, info})
}
