package cron

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expression, after string
		want              []string
	}{
		{"*/2 * * * * *", "2026-11-30T22:05:57.5Z", []string{"2026-11-30T22:05:58Z", "2026-11-30T22:06:00Z", "2026-11-30T22:06:02Z"}},
		{"* * * * * *", "2026-12-31T23:59:59Z", []string{"2027-01-01T00:00:00Z"}},
		{"0 0 0 1 1 *", "2026-01-01T00:00:00Z", []string{"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}},
		{"0 0 0 1 1 *", "2025-12-31T23:59:59.999Z", []string{"2026-01-01T00:00:00Z"}},
		// Both days must match, Sunday is 1, and a step on a value goes to the end.
		{"0   30   9,12,15     1,15       May-Aug  Mon,Wed,Fri  2018/2", "2018-01-01T00:00:00Z", []string{
			"2018-06-01T09:30:00Z", "2018-06-01T12:30:00Z", "2018-06-01T15:30:00Z", "2018-06-15T09:30:00Z", "2018-06-15T12:30:00Z",
			"2018-06-15T15:30:00Z", "2018-08-01T09:30:00Z", "2018-08-01T12:30:00Z", "2018-08-01T15:30:00Z", "2018-08-15T09:30:00Z",
		}},
		{"0 0 0 * * 1", "2026-01-02T00:00:00Z", []string{"2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"}},
		{"0 0 0 ? * SAT", "2026-01-02T00:00:00Z", []string{"2026-01-03T00:00:00Z"}},
		{"0 0 0 29 2 *", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"0 0 0 29 feb sunday", "2026-01-01T00:00:00Z", []string{"2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"}},
		{"0 0 0 31 * *", "2026-01-31T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"58-59/1 5/54 */12 * * *", "2026-01-01T00:05:58Z", []string{"2026-01-01T00:05:59Z", "2026-01-01T00:59:58Z", "2026-01-01T00:59:59Z", "2026-01-01T12:05:58Z"}},
		{"30 59 23 31 12 * 2026", "2026-01-01T00:00:00Z", []string{"2026-12-31T23:59:30Z", ""}},
		{"0 0 0 1 1 * 1970", "1960-06-01T00:00:00Z", []string{"1970-01-01T00:00:00Z", ""}},
		{"* * * * * *", "2100-12-31T23:59:58Z", []string{"2100-12-31T23:59:59Z", ""}},
		{"@hourly", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:00:00Z"}},
		{" @weekly ", "2026-01-02T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
		{"0 0 12 * * *", "2026-06-01T10:30:00-04:00", []string{"2026-06-02T12:00:00Z"}},
	} {
		s, err := Parse(tc.expression)
		if err != nil {
			t.Errorf("%s: %v", tc.expression, err)
			continue
		}
		var got []string
		for next := at(tc.after); len(got) < len(tc.want); {
			var ok bool
			if next, ok = s.Next(next); !ok {
				got = append(got, "")
				break
			}
			got = append(got, next.Format(time.RFC3339Nano))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.expression, diff)
		}
	}
}

func TestWhatIsNoExpression(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		// Texts of the iii engine.
		"* * * * *": "Invalid cron expression '* * * * *': * * * * *\n         ^\n",
		"zzz":       "Invalid cron expression 'zzz': zzz\n^\nThe 'Seconds' field does not support using names. 'zzz' specified.",
		// Our own.
		" ":                       "Invalid cron expression ' ':  \n ^\n",
		"* * * * * * * *":         "Invalid cron expression '* * * * * * * *': * * * * * * * *\n              ^\n",
		"60 * * * * *":            "Invalid cron expression '60 * * * * *': 60 * * * * *\n^\nThe 'Seconds' field allows 0 to 59. '60' specified.",
		"0 0 0 0 * *":             "Invalid cron expression '0 0 0 0 * *': 0 0 0 0 * *\n      ^\nThe 'Days of Month' field allows 1 to 31. '0' specified.",
		"0 0 0 * * 0":             "Invalid cron expression '0 0 0 * * 0': 0 0 0 * * 0\n          ^\nThe 'Days of Week' field allows 1 to 7. '0' specified.",
		"0 0 0 * foo *":           "Invalid cron expression '0 0 0 * foo *': 0 0 0 * foo *\n        ^\nThe 'Months' field does not know the name. 'foo' specified.",
		"0 0 0 * ma *":            "Invalid cron expression '0 0 0 * ma *': 0 0 0 * ma *\n        ^\nThe 'Months' field does not know the name. 'ma' specified.",
		"0 5-3 0 * * *":           "Invalid cron expression '0 5-3 0 * * *': 0 5-3 0 * * *\n  ^\nThe 'Minutes' field has a range that ends before it starts. '5-3' specified.",
		"0 */0 0 * * *":           "Invalid cron expression '0 */0 0 * * *': 0 */0 0 * * *\n  ^\nThe 'Minutes' field has a step from 1 to 59. '0' specified.",
		"0 */x 0 * * *":           "Invalid cron expression '0 */x 0 * * *': 0 */x 0 * * *\n  ^\nThe 'Minutes' field has a step from 1 to 59. 'x' specified.",
		"0 1,,2 0 * * *":          "Invalid cron expression '0 1,,2 0 * * *': 0 1,,2 0 * * *\n  ^\nThe 'Minutes' field cannot be read. '' specified.",
		"-1 * * * * *":            "Invalid cron expression '-1 * * * * *': -1 * * * * *\n^\nThe 'Seconds' field cannot be read. '' specified.",
		"* * * * * * 2101":        "Invalid cron expression '* * * * * * 2101': * * * * * * 2101\n            ^\nThe 'Years' field allows 1970 to 2100. '2101' specified.",
		"0 0 0 30 2 *":            "Invalid cron expression '0 0 0 30 2 *': 0 0 0 30 2 *\n            ^\nNo day matches it.",
		"@never":                  "Invalid cron expression '@never': @never\n^\nThe 'Seconds' field cannot be read. '@never' specified.",
		strings.Repeat("1,", 600): "Invalid cron expression '1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,…': 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,…\n^\nAt most 1024 bytes are allowed.",
	} {
		_, err := Parse(expression)
		var bad *ParseError
		if !errors.As(err, &bad) {
			t.Errorf("%q: got %v", expression, err)
			continue
		}
		if diff := cmp.Diff(want, bad.Error()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", expression, diff)
		}
	}
}

// anyField makes a field and the values that it stands for, apart from the reader.
func anyField(r *rand.Rand, f field) (string, map[int]bool) {
	values := map[int]bool{}
	var items []string
	for range 1 + r.IntN(3) {
		a := f.min + r.IntN(f.max-f.min+1)
		b := a + r.IntN(f.max-a+1)
		step := 1 + r.IntN(min(f.max, 12))
		write := func(n int) string {
			if f.names != nil && r.IntN(2) == 0 {
				return strings.ToUpper(f.names[n-f.min][:3])
			}
			return fmt.Sprint(n)
		}
		switch r.IntN(6) {
		case 0, 1:
			items, a, b, step = append(items, "*"), f.min, f.max, 1
		case 2:
			items, b = append(items, write(a)), a
		case 3:
			items, step = append(items, write(a)+"-"+write(b)), 1
		case 4:
			items, b = append(items, fmt.Sprintf("%s/%d", write(a), step)), f.max
		case 5:
			items, a, b = append(items, fmt.Sprintf("*/%d", step)), f.min, f.max
		}
		for n := a; n <= b; n += step {
			values[n] = true
		}
	}
	return strings.Join(items, ","), values
}

// TestNextIsTheFirst compares with a search that looks at every second, or where days are rare at every day.
func TestNextIsTheFirst(t *testing.T) {
	t.Parallel()
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range 400 {
		var texts []string
		var allowed [7]map[int]bool
		for i, f := range fields {
			text, values := anyField(r, f)
			texts, allowed[i] = append(texts, text), values
		}
		if r.IntN(3) > 0 {
			texts[6], allowed[6] = "*", nil
		}
		day := func(t time.Time) bool {
			return allowed[3][t.Day()] && allowed[4][int(t.Month())] && allowed[5][int(t.Weekday())+1] && (allowed[6] == nil || allowed[6][t.Year()])
		}
		expression := strings.Join(texts, " ")
		s, err := Parse(expression)
		after := time.Unix(r.Int64N(4_100_000_000), r.Int64N(1e9)).UTC()
		want, found := time.Time{}, false
		for d := time.Date(after.Year(), after.Month(), after.Day(), 0, 0, 0, 0, time.UTC); d.Year() <= lastYear && !found; d = d.AddDate(0, 0, 1) {
			if !day(d) {
				continue
			}
			for sec := range 86400 {
				one := d.Add(time.Duration(sec) * time.Second)
				if one.After(after) && allowed[0][sec%60] && allowed[1][sec/60%60] && allowed[2][sec/3600] {
					want, found = one, true
					break
				}
			}
		}
		if err != nil {
			if !strings.HasSuffix(err.Error(), "No day matches it.") || found {
				t.Errorf("%s: %v", expression, err)
			}
			continue
		}
		if got, ok := s.Next(after); ok != found || !got.Equal(want) {
			t.Errorf("%s after %v: got %v, %v, want %v, %v", expression, after, got, ok, want, found)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * * *", "*/2 1-3 4,5 ? jan-mar Mon/2 2018/2", "zzz", "@daily", "0 0 0 30 2 *", "1,,2 - / *", "\x00 é"} {
		f.Add(seed, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, expression string, after int64) {
		s, err := Parse(expression)
		if err != nil {
			var bad *ParseError
			if !errors.As(err, &bad) || bad.Error() == "" {
				t.Fatalf("got %v", err)
			}
			return
		}
		from := time.Unix(after%4_200_000_000, 0).UTC()
		next, ok := s.Next(from)
		if !ok {
			return
		}
		if !next.After(from) || next.Nanosecond() != 0 {
			t.Fatalf("%q: %v is not after %v", expression, next, from)
		}
		parts := []int{next.Second(), next.Minute(), next.Hour(), next.Day(), int(next.Month()), int(next.Weekday()) + 1, next.Year() - firstYear}
		sets := []*set{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday, &s.year}
		for i, n := range parts {
			if !sets[i].has(n) {
				t.Fatalf("%q: %v does not match field %d", expression, next, i)
			}
		}
	})
}
