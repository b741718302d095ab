package embedded

import (
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/state"
)

// checkWrites refuses what can be told without reading.
func checkWrites(writes []state.Write) error {
	if len(writes) > state.MaxTx {
		return &state.InvalidKeyError{Field: "writes", Allowed: fmt.Sprintf("at most %d in one transaction", state.MaxTx)}
	}
	for i := range writes {
		w := &writes[i]
		if err := checkKey(w.Key); err != nil {
			return err
		}
		for j := range i {
			if writes[j].Key == w.Key {
				return &state.InvalidKeyError{Field: "key", Allowed: "named once in a transaction"}
			}
		}
		if err := checkExpect(w.Expect); err != nil {
			return err
		}
		if err := checkKind(w); err != nil {
			return err
		}
	}
	return nil
}

func checkExpect(e state.Expect) error {
	if e.Version < 0 || e.Absent && e.Version != 0 {
		return &state.InvalidKeyError{Field: "expect", Allowed: "absent, or a version from 1 on"}
	}
	return nil
}

func checkKind(w *state.Write) error {
	switch w.Kind {
	case state.KindSet:
		return checkValue(w.Key, w.Value)
	case state.KindUpdate, state.KindDelete, state.KindCheck:
		return nil
	}
	return &state.InvalidKeyError{Field: "kind", Allowed: "set, update, delete or check"}
}

// checkValue refuses a value that is too large or no JSON; none at all counts
// as null.
func checkValue(k state.Key, v json.RawMessage) error {
	if len(v) > state.MaxValue {
		return &state.TooLargeError{Key: k, Size: len(v)}
	}
	if len(v) > 0 && !json.Valid(v) {
		return &state.InvalidKeyError{Field: "value", Allowed: "JSON text"}
	}
	return nil
}

// orNull is a value to be stored.
func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}
