package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

var stateRaces = []stateCase{
	{"a hundred writers count by reading and writing", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx := deadline(t)
		set(t, s, "s", "n", `0`)
		increment := func() error {
			for {
				item, _, err := s.Get(ctx, state.Key{Scope: "s", Key: "n"})
				if err != nil {
					return err
				}
				n, err := strconv.Atoi(string(item.Value))
				if err != nil {
					return err
				}
				_, err = state.Do(ctx, s, state.Set("s", "n", json.RawMessage(strconv.Itoa(n+1))).IfVersion(item.Version))
				var c *state.ConflictError
				if !errors.As(err, &c) {
					return err
				}
			}
		}
		var writers sync.WaitGroup
		for range 100 {
			writers.Go(func() {
				if err := increment(); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		wantValue(t, s, "s", "n", `100`, 101)
	}},
	{"a hundred writers count by ops", func(t *testing.T, s state.Store, _ *clock.Fake) {
		tickets := make([]commit.Ticket, 100)
		var writers sync.WaitGroup
		for i := range tickets {
			writers.Go(func() {
				tickets[i] = s.Submit(t.Context(), []state.Write{
					state.Update("s", "n", state.Op{Type: "increment", Path: json.RawMessage(`""`), By: json.RawMessage(`1`)}),
				})
			})
		}
		writers.Wait()
		wantApplied(t, tickets...)
		wantValue(t, s, "s", "n", `100`, 100)
	}},
	{"one of many creates wins", func(t *testing.T, s state.Store, _ *clock.Fake) {
		var writers sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for i := range 50 {
			writers.Go(func() {
				value := strconv.Itoa(i)
				_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(value)).IfAbsent())
				var c *state.ConflictError
				switch {
				case err == nil:
					mu.Lock()
					won = append(won, value)
					mu.Unlock()
				case !errors.As(err, &c):
					t.Error(err)
				}
			})
		}
		writers.Wait()
		if len(won) != 1 {
			t.Fatalf("got winners %v, want one", won)
		}
		wantValue(t, s, "s", "k", won[0], 1)
	}},
	{"transactions keep a sum", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx := deadline(t)
		const accounts, transfers = 4, 25
		for i := range accounts {
			set(t, s, "s", fmt.Sprint(i), `100`)
		}
		read := func(key string) (state.Item, int, error) {
			item, _, err := s.Get(ctx, state.Key{Scope: "s", Key: key})
			if err != nil {
				return item, 0, err
			}
			n, err := strconv.Atoi(string(item.Value))
			return item, n, err
		}
		transfer := func(from, to string) error {
			for {
				a, n, err := read(from)
				if err != nil {
					return err
				}
				b, m, err := read(to)
				if err != nil {
					return err
				}
				_, err = s.Submit(ctx, []state.Write{
					state.Set("s", from, json.RawMessage(strconv.Itoa(n-1))).IfVersion(a.Version),
					state.Set("s", to, json.RawMessage(strconv.Itoa(m+1))).IfVersion(b.Version),
				}).Wait(ctx)
				var c *state.ConflictError
				if !errors.As(err, &c) {
					return err
				}
			}
		}
		var writers sync.WaitGroup
		for w := range 8 {
			writers.Go(func() {
				for i := range transfers {
					if err := transfer(fmt.Sprint((w+i)%accounts), fmt.Sprint((w+i+1)%accounts)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		sum := 0
		for i := range accounts {
			_, n, err := read(fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if sum != accounts*100 {
			t.Errorf("got a sum of %d, want %d", sum, accounts*100)
		}
	}},
}
