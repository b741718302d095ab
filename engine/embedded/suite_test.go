package embedded_test

import (
	"path/filepath"
	"testing"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/enginetest"
	"github.com/iii-aws/harness/engine/secret"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

func open(t *testing.T, o embedded.Options) *embedded.DB {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Strict = true
	db, err := embedded.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestState(t *testing.T) {
	t.Parallel()
	enginetest.RunState(t, func(t *testing.T, c clock.Clock) state.Store {
		return open(t, embedded.Options{Clock: c, NoSync: true}).State()
	})
}

func TestStream(t *testing.T) {
	t.Parallel()
	enginetest.RunStream(t, func(t *testing.T, c clock.Clock) stream.Store {
		return open(t, embedded.Options{Clock: c, NoSync: true}).Streams()
	})
}

func TestBlob(t *testing.T) {
	t.Parallel()
	enginetest.RunBlob(t, func(t *testing.T, c clock.Clock) blob.Store {
		return open(t, embedded.Options{Clock: c, NoSync: true}).Blobs()
	})
}

func TestSecret(t *testing.T) {
	t.Parallel()
	enginetest.RunSecret(t, func(t *testing.T) secret.Store {
		return embedded.NewSecretFile(filepath.Join(t.TempDir(), "home", "credentials.json"))
	})
}
