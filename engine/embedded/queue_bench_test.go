package embedded_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
)

func BenchmarkQueue1Producer(b *testing.B)   { benchmarkQueue(b, 1) }
func BenchmarkQueue64Producers(b *testing.B) { benchmarkQueue(b, 64) }

// benchmarkQueue sends, receives and acknowledges b.N messages of a FIFO queue,
// synced, from n goroutines that each serve a group of their own.
func benchmarkQueue(b *testing.B, n int) {
	ctx := context.Background()
	db, q := openQueueBench(b, embedded.Options{})
	if _, err := q.Define(ctx, queue.Config{Name: "q", Type: queue.FIFO, Concurrency: 1000, ContentDedup: true}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var workers sync.WaitGroup
	for w := range n {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				m := queue.Message{Queue: "q", Group: fmt.Sprint(w), FunctionID: "turn::step", Data: json.RawMessage(fmt.Sprintf(`{"session_id":"s%d","run":"r","cause":"start"}`, i))}
				if _, err := q.Submit(ctx, m).Wait(ctx); err != nil {
					b.Error(err)
					return
				}
				ds, err := q.Receive(ctx, "q", 1)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := q.Ack(ctx, "q", ds[0].Receipt).Wait(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	s := db.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(s.Commits)/float64(b.N), "commits/op")
	b.ReportMetric(float64(s.PageBytes)/float64(b.N), "page-B/op")
}

// BenchmarkQueueDepth receives and gives back one message while others wait.
func BenchmarkQueueDepth(b *testing.B) {
	for _, depth := range []int{10, 100_000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			ctx := context.Background()
			_, q := openQueueBench(b, embedded.Options{NoSync: true})
			if _, err := q.Define(ctx, queue.Config{Name: "q", Type: queue.FIFO, Concurrency: 1000}); err != nil {
				b.Fatal(err)
			}
			var sent []commit.Ticket
			for i := range depth {
				sent = append(sent, q.Submit(ctx, queue.Message{Queue: "q", Group: fmt.Sprint(i % 1000), FunctionID: "t::f"}))
			}
			if err := commit.Wait(ctx, sent...); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				ds, err := q.Receive(ctx, "q", 1)
				if err != nil {
					b.Fatal(err)
				}
				if err := q.Release(ctx, "q", ds[0].Receipt, 0, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkQueueOpen opens a file with 100,000 waiting messages.
func BenchmarkQueueOpen(b *testing.B) {
	ctx := context.Background()
	db, q := openQueueBench(b, embedded.Options{NoSync: true})
	var sent []commit.Ticket
	for range 100_000 {
		sent = append(sent, q.Submit(ctx, queue.Message{Queue: "default", FunctionID: "t::f"}))
	}
	if err := commit.Wait(ctx, sent...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := embedded.OpenQueue(ctx, db); err != nil {
			b.Fatal(err)
		}
	}
}

func openQueueBench(b *testing.B, o embedded.Options) (*embedded.DB, *embedded.Queue) {
	b.Helper()
	o.Dir = b.TempDir()
	db, err := embedded.Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	q, err := embedded.OpenQueue(context.Background(), db)
	if err != nil {
		b.Fatal(err)
	}
	return db, q
}
