package sdk

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestChannels streams texts and bytes between two stock workers, in both
// directions and across the SDKs: what was written is what is read, in order.
func TestChannels(t *testing.T) {
	repeats(t, "19-channels", "33-python-channel-token")
	t.Parallel()
	for _, from := range Languages {
		for _, to := range Languages {
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				stock(t, from)
				stock(t, to)
				t.Parallel()
				s := serve(t, "")
				a := attach(t, from, s, "opener")
				b := attach(t, to, s, "other")
				b.function("channel::drain", "drain")
				b.function("channel::fill", "fill")
				served(t, dial(t, s), "channel::fill", true)
				texts := []string{"hello", `{"type":"text_delta","delta":"é"}`, strings.Repeat("x", 1000)}
				for _, op := range []args{
					{"op": "send", "function_id": "channel::drain", "texts": texts, "size": 0},
					{"op": "send", "function_id": "channel::drain", "texts": texts, "size": 100000},
					{"op": "send", "function_id": "channel::drain", "texts": []string{}, "size": 1 << 20},
					{"op": "receive", "function_id": "channel::fill", "texts": texts, "size": 100000},
					{"op": "receive", "function_id": "channel::fill", "texts": texts, "size": 1 << 20, "buffer": 1},
				} {
					name := op["op"].(string)
					var out struct {
						Sent struct {
							Bytes int    `json:"bytes"`
							Sum   string `json:"sha256"`
						} `json:"sent"`
						Read struct {
							Texts []string `json:"texts"`
							Bytes int      `json:"bytes"`
							Sum   string   `json:"sha256"`
						} `json:"read"`
					}
					delete(op, "op")
					if err := json.Unmarshal(a.do(name, op), &out); err != nil {
						t.Fatal(err)
					}
					if out.Read.Sum != out.Sent.Sum || out.Read.Bytes != op["size"] || strings.Join(out.Read.Texts, "|") != strings.Join(op["texts"].([]string), "|") {
						t.Errorf("%s %v: sent %d bytes, read %d and %q", name, op["size"], out.Sent.Bytes, out.Read.Bytes, out.Read.Texts)
					}
				}
			})
		}
	}
}
