package blob_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/embedded"
)

func newStore(t testing.TB) blob.Store {
	t.Helper()
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db.Blobs()
}

var operator = bus.Principal{ID: "op", Role: bus.RoleOperator}

func read(t testing.TB, e map[string]bus.Endpoint, p bus.Principal, data string) (map[string]any, error) {
	t.Helper()
	out, err := e[blob.FunctionRead].Handle(t.Context(), &bus.Call{Principal: p, Data: json.RawMessage(data)})
	if err != nil {
		return nil, err
	}
	var res map[string]any
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatal(err)
	}
	return res, nil
}

func TestReadInPieces(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	content := bytes.Repeat([]byte("0123456789\xff"), 7000)
	info, err := store.Put(t.Context(), "s1", "text/plain", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	e := blob.Endpoints(store, nil)
	for _, size := range []string{"", `,"max_bytes":null`, `,"max_bytes":1000`, `,"max_bytes":99999999`} {
		var got []byte
		for offset, pieces := 0, 0; ; pieces++ {
			res, err := read(t, e, operator, fmt.Sprintf(`{"id":%q,"offset":%d%s}`, info.ID, offset, size))
			if err != nil {
				t.Fatal(err)
			}
			piece, err := base64.StdEncoding.DecodeString(res["data"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if res["mime"] != "text/plain" || res["size"] != float64(len(content)) {
				t.Errorf("got %v", res)
			}
			got = append(got, piece...)
			next, more := res["next_offset"]
			if !more {
				break
			}
			if offset = int(next.(float64)); offset != len(got) || pieces > 100 {
				t.Fatalf("next_offset %d after %d bytes", offset, len(got))
			}
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%q: %d bytes differ from the %d of the blob", size, len(got), len(content))
		}
	}
	res, err := read(t, e, operator, fmt.Sprintf(`{"id":%q,"offset":%d}`, info.ID, len(content)+5))
	if diff := cmp.Diff(map[string]any{"data": "", "size": float64(len(content)), "mime": "text/plain"}, res); err != nil || diff != "" {
		t.Errorf("behind the end: %v (-want +got):\n%s", err, diff)
	}
}

func TestAStrangersBlobLooksMissing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	info, err := store.Put(t.Context(), "s1", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("store")
	e := blob.Endpoints(store, func(_ context.Context, p bus.Principal, session string) (bool, error) {
		if p.ID == "broken" {
			return false, broken
		}
		return p.ID == "ann" && session == "s1", nil
	})
	ask := fmt.Sprintf(`{"id":%q}`, info.ID)
	if _, err := read(t, e, bus.Principal{ID: "ann"}, ask); err != nil {
		t.Errorf("the owner got %v", err)
	}
	_, stranger := read(t, e, bus.Principal{ID: "bob"}, ask)
	_, missing := read(t, e, bus.Principal{ID: "ann"}, `{"id":"nope"}`)
	if bus.Code(stranger) != "not_found" || bus.Code(missing) != "not_found" {
		t.Fatalf("got %v and %v, want not_found", stranger, missing)
	}
	if got := strings.Replace(stranger.Error(), info.ID, "nope", 1); got != missing.Error() {
		t.Errorf("a stranger's blob says %q, a missing one %q", got, missing.Error())
	}
	if _, err := read(t, e, bus.Principal{ID: "broken"}, ask); !errors.Is(err, broken) {
		t.Errorf("got %v, want the store's error", err)
	}
	if _, err := read(t, blob.Endpoints(store, nil), bus.Principal{ID: "ann"}, ask); bus.Code(err) != "not_found" {
		t.Errorf("without owners got %v, want not_found", err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	e := blob.Endpoints(newStore(t), nil)
	for data, want := range map[string]string{
		`{}`:                         "missing field `id`",
		`{"id":1}`:                   "invalid type: integer `1`, expected a string",
		`{"id":"x","offset":-1}`:     "invalid value: offset -1 and max_bytes 24576, expected an offset from 0 and max_bytes from 1 on",
		`{"id":"x","max_bytes":0}`:   "invalid value: offset 0 and max_bytes 0, expected an offset from 0 and max_bytes from 1 on",
		`{"id":"x","max_bytes":"1"}`: "invalid type: string \"1\", expected i64",
	} {
		_, err := read(t, e, operator, data)
		if diff := cmp.Diff(&bus.Error{Code: "deserialization_error", Message: "Failed to deserialize input for blob::read: " + want}, bus.AsError(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
}

// short is a store whose blobs end early or cannot be opened.
type short struct {
	blob.Store
	err error
}

func (s short) Open(context.Context, string, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), s.err
}

func TestStoreFaults(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	info, err := store.Put(t.Context(), "s1", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{errors.New("disk"), io.EOF} {
		s := short{store, want}
		if want == io.EOF {
			s.err = nil
		}
		if _, err := read(t, blob.Endpoints(s, nil), operator, fmt.Sprintf(`{"id":%q}`, info.ID)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
