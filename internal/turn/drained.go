package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// maxDrain is how many bytes of a channel in a reply are read.
const maxDrain = 256 << 10

// drainChannelFor is how long that may take.
const drainChannelFor = 30 * time.Second

// drained is the result of a reply that holds channels to read: their text
// takes the place of the refs, and no key reaches the model.
func (c checker) drained(ctx context.Context, reply json.RawMessage) (step.Outcome, bool) {
	refs := protocol.FindRefs(reply)
	if len(refs) == 0 {
		return step.Outcome{}, false
	}
	var out []agent.Block
	for _, ref := range refs {
		if ref.Direction != protocol.DirectionRead {
			continue
		}
		text, err := c.readChannel(ctx, ref)
		if err != nil {
			return step.Failure{Code: step.CodeHandlerError, Message: "the stream of the result could not be read: " + clean(err)}.Outcome(), true
		}
		out = append(out, agent.Text(text))
	}
	o := step.FromReply(withoutKeys(reply))
	if len(out) > 0 {
		o.Result.Content = out
	}
	return o, true
}

// readChannel reads a channel to its end or to the limit. Bytes that are no
// text give a line that says so.
func (c checker) readChannel(ctx context.Context, ref channel.Ref) (string, error) {
	r, err := c.t.Channels.OpenReader(ref)
	if err != nil {
		return "", err
	}
	ctx, cancel := c.t.limited(ctx, drainChannelFor)
	defer cancel()
	defer func() {
		if err := r.Close(); err != nil {
			c.t.Logger.Debug("channel not closed", "error", err)
		}
	}()
	var b strings.Builder
	for b.Len() < maxDrain {
		m, err := r.Read(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		b.Write(m.Data)
	}
	text := b.String()
	if len(text) > maxDrain {
		text = cutText(text, maxDrain)
	}
	if !utf8.ValidString(text) {
		return fmt.Sprintf("<binary %d bytes>", len(text)), nil
	}
	return text, nil
}

// withoutKeys is a reply in which no object is a channel ref any more.
func withoutKeys(reply json.RawMessage) json.RawMessage {
	var v any
	dec := json.NewDecoder(strings.NewReader(string(reply)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return json.RawMessage("null")
	}
	return encode(scrub(v))
}

func scrub(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if _, ok := x["access_key"]; ok && x["channel_id"] != nil {
			return map[string]any{"channel": "read by the harness"}
		}
		for k, m := range x {
			x[k] = scrub(m)
		}
	case []any:
		for i, m := range x {
			x[i] = scrub(m)
		}
	}
	return v
}
