package channel

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
)

func TestCreateRefusesABufferThatIsNoSize(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	for data, want := range map[string]string{
		`{"buffer_size":"x"}`: `invalid type: string "x", expected usize`,
		`{"buffer_size":-1}`:  "invalid value: integer `-1`, expected usize",
		`{"buffer_size":1.5}`: "invalid type: floating point `1.5`, expected usize",
		`[]`:                  "invalid type: sequence, expected an object",
	} {
		_, err := Endpoints(l)[FunctionCreate].Handle(t.Context(), &bus.Call{Data: json.RawMessage(data)})
		got := bus.AsError(err)
		if diff := cmp.Diff(&bus.Error{Code: "deserialization_error", Message: "Failed to deserialize input for engine::channels::create: " + want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
}

func TestBufferIsClamped(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	for data, want := range map[string]int{
		`{}`: DefaultBuffer, `{"buffer_size":0}`: 1, `{"buffer_size":16}`: 16, `{"buffer_size":100000}`: MaxBuffer,
	} {
		out, err := Endpoints(l)[FunctionCreate].Handle(t.Context(), &bus.Call{Data: json.RawMessage(data)})
		if err != nil {
			t.Fatal(err)
		}
		var res createResponse
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatal(err)
		}
		if got := l.open[res.Writer.ChannelID].buffer; got != want {
			t.Errorf("%s: a buffer of %d messages, want %d", data, got, want)
		}
	}
}
