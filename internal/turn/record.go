package turn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// load reads the record of a session; nil if there is none. Errors:
// *step.NewerError, *step.BrokenError, those of the store.
func (t *Turn) load(ctx context.Context, session string) (*step.Record, error) {
	item, ok, err := t.State.Get(ctx, state.Key{Scope: agent.ScopeTurnState, Key: session})
	if err != nil || !ok {
		return nil, err
	}
	return step.Parse(item.Value, item.Version)
}

// recordWrite is the conditional write of a record.
func (t *Turn) recordWrite(ctx context.Context, rec *step.Record, text json.RawMessage) state.Write {
	w := state.Set(agent.ScopeTurnState, rec.SessionID, text).If(state.Expect{Absent: rec.Version == 0, Version: rec.Version})
	w.Due = clock.FromMillis(rec.DueAt)
	w.Origin = origin(ctx, rec.Principal)
	return w
}

func origin(ctx context.Context, p bus.Principal) state.Origin {
	o := state.Origin{Principal: p}
	if c := bus.CallFrom(ctx); c != nil {
		o.Traceparent, o.Baggage = c.Traceparent, c.Baggage
	}
	return o
}

// blobCache remembers which texts of a step are stored as which blob, so that
// none is written or read twice.
type blobCache struct {
	infos map[[32]byte]blob.Info
	texts map[string]json.RawMessage
}

func newBlobCache() *blobCache {
	return &blobCache{infos: map[[32]byte]blob.Info{}, texts: map[string]json.RawMessage{}}
}

const mimeJSON = "application/json"

// storeValues moves the bulky values of a record into blobs.
func (t *Turn) storeValues(ctx context.Context, rec *step.Record, cache *blobCache) error {
	if cache == nil {
		cache = newBlobCache()
	}
	one := func(v *step.Value) error {
		if !v.Bulky() {
			return nil
		}
		sum := sha256.Sum256(v.Raw)
		info, ok := cache.infos[sum]
		if !ok {
			var err error
			if info, err = t.Blobs.Put(ctx, rec.SessionID, mimeJSON, bytes.NewReader(v.Raw)); err != nil {
				return err
			}
			cache.infos[sum], cache.texts[info.ID] = info, v.Raw
			t.Stats.Waited(rec.SessionID, "blob")
		}
		v.Ref = &info
		return nil
	}
	return each(rec, one)
}

// loadValues reads the values that a record keeps in blobs.
func (t *Turn) loadValues(ctx context.Context, rec *step.Record, cache *blobCache) error {
	if cache == nil {
		cache = newBlobCache()
	}
	return each(rec, func(v *step.Value) error {
		if v.Loaded() {
			return nil
		}
		text, ok := cache.texts[v.Ref.ID]
		if !ok {
			var err error
			if text, err = t.readBlob(ctx, v.Ref.ID); err != nil {
				return err
			}
			cache.texts[v.Ref.ID] = text
			cache.infos[sha256.Sum256(text)] = *v.Ref
		}
		v.Raw = text
		return nil
	})
}

func (t *Turn) readBlob(ctx context.Context, id string) (json.RawMessage, error) {
	r, err := t.Blobs.Open(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return text, err
}

func each(rec *step.Record, f func(*step.Value) error) error {
	for _, v := range rec.Values() {
		if err := f(v); err != nil {
			return err
		}
	}
	return rec.EachKept(f)
}
