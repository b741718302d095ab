package step

import (
	"bytes"
	"encoding/json"

	"github.com/iii-aws/harness/engine/blob"
)

// StoreLimit is the size in bytes above which a record keeps a value by
// reference.
const StoreLimit = 4 << 10

// storedKey marks a reference inside a stored record. It is not the "$blob"
// of the wire: a caller may pass that one as an argument of its own.
const storedKey = "$stored"

// Value is JSON that a record holds itself or by reference. A value that was
// stored as a blob has a Ref; Raw is then absent until it was loaded.
type Value struct {
	Raw json.RawMessage
	Ref *blob.Info
}

// Of is a value of v. It panics if v cannot be JSON.
func Of(v any) Value { return Value{Raw: encode(v)} }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return len(v.Raw) == 0 && v.Ref == nil }

// Loaded reports whether the text is here.
func (v Value) Loaded() bool { return len(v.Raw) > 0 || v.Ref == nil }

// Bulky reports whether the value has to be stored as a blob before the record
// is written: it is large, or would be mistaken for a reference.
func (v Value) Bulky() bool {
	return v.Ref == nil && (len(v.Raw) > StoreLimit || bytes.Contains(v.Raw, []byte(`"`+storedKey+`"`)))
}

// MarshalJSON writes the reference if there is one.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.Ref != nil:
		return encode(map[string]*blob.Info{storedKey: v.Ref}), nil
	case len(v.Raw) == 0:
		return []byte("null"), nil
	}
	return v.Raw, nil
}

// UnmarshalJSON reads what MarshalJSON wrote; null is no value.
func (v *Value) UnmarshalJSON(data []byte) error {
	*v = Value{}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var ref struct {
		Stored *blob.Info `json:"$stored"`
	}
	if bytes.HasPrefix(data, []byte(`{"`+storedKey+`"`)) && json.Unmarshal(data, &ref) == nil && ref.Stored != nil {
		v.Ref = ref.Stored
		return nil
	}
	v.Raw = bytes.Clone(data)
	return nil
}

// encode is v as JSON without HTML escapes, so that what a caller wrote stays
// as it was. It panics on what cannot be JSON: the types of this package can.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("step: encode: " + err.Error())
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}
