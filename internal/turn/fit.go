package turn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// fit cuts a result that is larger than a model should get or than one stored
// value may be. What was cut is kept whole in a blob of the session.
func (c checker) fit(ctx context.Context, o step.Outcome) step.Outcome {
	text := 0
	for _, b := range o.Result.Content {
		text += len(b.Text)
	}
	whole := encode(o.Result)
	if text <= c.t.cfg.ResultTextLimit && len(whole) <= state.InlineLimit {
		return o
	}
	data, mime := wholeText(o.Result, whole)
	info, err := c.t.Blobs.Put(ctx, c.session, mime, bytes.NewReader(data))
	if err != nil {
		c.t.Logger.Error("large result not stored", "session", c.session, "bytes", len(data), "error", err)
	}
	hint := fmt.Sprintf("The result has %d bytes and was cut. Read the rest with blob::read {id, offset?, max_bytes?}, id %q.", len(data), info.ID)
	if err != nil {
		hint = fmt.Sprintf("The result had %d bytes and was cut; the rest could not be stored.", len(data))
	}
	o.Result.Content = append(cutBlocks(o.Result.Content, c.t.cfg.ResultTextLimit), agent.Text(hint))
	o.Result.Details = cutDetails(o.Result.Details, info, err == nil, hint)
	return o
}

// wholeText is what the blob of a cut result holds: its text if it is one text
// block, else the result as JSON.
func wholeText(r agent.FunctionResult, whole json.RawMessage) ([]byte, string) {
	if len(r.Content) == 1 && r.Content[0].Type == agent.BlockText {
		return []byte(r.Content[0].Text), "text/plain; charset=utf-8"
	}
	return whole, mimeJSON
}

// cutBlocks keeps so many bytes of text, cut between runes. Blocks that are no
// text stay if they are small.
func cutBlocks(blocks []agent.Block, limit int) []agent.Block {
	out := make([]agent.Block, 0, len(blocks))
	room := state.InlineLimit / 2
	for _, b := range blocks {
		if b.Type != agent.BlockText {
			if size := len(b.Data) + len(b.Raw) + len(b.Text); size <= room {
				room -= size
				out = append(out, b)
			}
			continue
		}
		if len(b.Text) > limit {
			b.Text = cutText(b.Text, limit)
		}
		limit -= len(b.Text)
		if b.Text != "" {
			out = append(out, b)
		}
	}
	return out
}

// cutText is at most limit bytes of a text, without half a rune.
func cutText(s string, limit int) string {
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// smallDetails is the size up to which details of a cut result are kept.
const smallDetails = 8 << 10

// cutDetails adds the blob to the details of a cut result; details that are
// large themselves give way to it.
func cutDetails(details json.RawMessage, info blob.Info, stored bool, hint string) json.RawMessage {
	m := map[string]json.RawMessage{}
	if len(details) > smallDetails || json.Unmarshal(details, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	m["truncated"], m["hint"] = json.RawMessage("true"), encode(hint)
	if stored {
		m["blob"] = encode(blob.Ref{Blob: info})
	}
	return encode(m)
}
