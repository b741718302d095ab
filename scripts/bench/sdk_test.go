package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/sdk"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		took []float64
		rate float64
	}{
		"":                           {},
		"90/s":                       {rate: 90.4},
		"2.00 / 3.00 / 3.00 ms":      {took: []float64{3, 1, 2}},
		"1.25 / 1.25 / 1.25 ms, 7/s": {took: []float64{1.25}, rate: 7},
	} {
		if got := summary(tt.took, tt.rate); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSDKFigures measures a little of everything.
func TestSDKFigures(t *testing.T) {
	t.Parallel()
	var missing *sdk.NotInstalledError
	if _, err := sdk.Node.Installed(); errors.As(err, &missing) {
		t.Skip("needs the stock SDKs, which make sdks installs: they were not tried")
	}
	var out, errOut strings.Builder
	if code := run(t.Context(), ".", []string{"-sdk", "-scale", "0.01"}, &out, &errOut); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, &out, &errOut)
	}
	for _, f := range figures {
		if strings.HasPrefix(f.name, "memory ") {
			continue // no such folder on some systems
		}
		for row := range strings.Lines(out.String()) {
			if strings.HasPrefix(row, f.what) && strings.Contains(row, "not measured") {
				t.Errorf("not measured: %s", row)
			}
		}
		if !strings.Contains(out.String(), f.what) {
			t.Errorf("no line for %s in\n%s", f.what, &out)
		}
	}
}
