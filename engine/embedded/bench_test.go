package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/iii-aws/harness/engine/state"
)

func BenchmarkCommit1Writer(b *testing.B)    { benchmarkCommit(b, 1) }
func BenchmarkCommit64Writers(b *testing.B)  { benchmarkCommit(b, 64) }
func BenchmarkCommit256Writers(b *testing.B) { benchmarkCommit(b, 256) }

// benchmarkCommit sets values of 2 KB, synced, from n goroutines that each
// wait for their ticket.
func benchmarkCommit(b *testing.B, n int) {
	db := openBench(b)
	value := json.RawMessage(`"` + strings.Repeat("x", 2046) + `"`)
	store := db.State()
	ctx := context.Background()
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var writers sync.WaitGroup
	for w := range n {
		writers.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				key := fmt.Sprintf("w%d/%d", w, i%64)
				if _, err := state.Do(ctx, store, state.Set("bench", key, value)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	b.StopTimer()
	s := db.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64(s.Ops)/float64(s.Commits), "ops/commit")
	b.ReportMetric(float64(s.PageBytes)/float64(b.N), "page-B/op")
}

func openBench(b *testing.B) *DB {
	b.Helper()
	db, err := Open(context.Background(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}
