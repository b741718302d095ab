package bus

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestSchemaOfAnyValue(t *testing.T) {
	t.Parallel()
	type request struct {
		Value json.RawMessage   `json:"value"`
		Many  []json.RawMessage `json:"many"`
	}
	e := Typed(func(context.Context, *Call, request) (request, error) { return request{}, nil })
	for _, s := range []string{string(e.Request), string(e.Response)} {
		if strings.Contains(s, "integer") || !strings.Contains(s, `"value":{"description":"any JSON value"}`) {
			t.Errorf("schema = %s", s)
		}
	}
}
