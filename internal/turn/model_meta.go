package turn

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// modelEntry is what the turn reads of a model's catalogue entry.
type modelEntry struct {
	ContextWindow   int64    `json:"context_window"`
	MaxOutputTokens int64    `json:"max_output_tokens"`
	Pricing         *pricing `json:"pricing"`
}

// pricing is in US dollars for a million tokens.
type pricing struct {
	Input  float64 `json:"input_per_1m"`
	Output float64 `json:"output_per_1m"`
}

// entry is the catalogue entry of the run's model; ok is false if there is
// none.
func (d *driver) entry() (e modelEntry, ok bool) {
	if len(d.rec.ModelMeta) == 0 {
		return modelEntry{}, false
	}
	return e, json.Unmarshal(d.rec.ModelMeta, &e) == nil
}

// limit is the model's window, nil if it is not known.
func (d *driver) limit() *agent.ModelLimit {
	e, ok := d.entry()
	if !ok || e.ContextWindow == 0 {
		return nil
	}
	return &agent.ModelLimit{Context: e.ContextWindow, Input: e.ContextWindow, Output: e.MaxOutputTokens}
}

// estimate is the size of a value in tokens: a quarter of its JSON.
func estimate(vs ...any) int64 {
	var n int64
	for _, v := range vs {
		n += int64(len(encode(v)))
	}
	return n / 4
}
