package outbox

import (
	"sync"
	"testing"
)

func TestBoxIsBoundedInItemsAndBytes(t *testing.T) {
	t.Parallel()
	b := New[string](3, 10)
	for _, tt := range []struct {
		item string
		size int
		want bool
	}{{"one larger than the box", 100, true}, {"x", 1, false}} {
		if ok, _ := b.Offer(tt.item, tt.size); ok != tt.want {
			t.Errorf("%s: %v", tt.item, ok)
		}
	}
	if item, more, ok := b.Take(); item != "one larger than the box" || more || !ok {
		t.Errorf("took %q, %v, %v", item, more, ok)
	}
	for _, item := range []string{"a", "b", "c"} {
		if ok, _ := b.Offer(item, 1); !ok {
			t.Errorf("%s was refused", item)
		}
	}
	ok, space := b.Offer("d", 1)
	if ok || space == nil {
		t.Error("a fourth item was taken")
	}
	if item, more, _ := b.Take(); item != "a" || !more {
		t.Errorf("took %q, %v", item, more)
	}
	<-space
	b.Return("a", 1)
	b.Keep(func(item string) bool { return item != "b" })
	for _, want := range []string{"a", "c"} {
		if item, _, _ := b.Take(); item != want {
			t.Errorf("took %q, want %q", item, want)
		}
	}
	if _, _, ok := b.Take(); ok {
		t.Error("an empty box gave something")
	}
}

func TestBoxHandsOverEverything(t *testing.T) {
	t.Parallel()
	b := New[int](4, 1<<20)
	const n, senders = 500, 4
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range n {
				for {
					ok, space := b.Offer(s*n+i, 1)
					if ok {
						break
					}
					<-space
				}
			}
		})
	}
	last := map[int]int{}
	for got := 0; got < n*senders; {
		<-b.Ready()
		for {
			v, _, ok := b.Take()
			if !ok {
				break
			}
			if before, seen := last[v/n]; seen && v <= before {
				t.Fatalf("%d came behind %d", v, before)
			}
			last[v/n] = v
			got++
		}
	}
	wg.Wait()
}
