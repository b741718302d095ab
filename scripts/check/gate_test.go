package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

func TestGate(t *testing.T) {
	t.Parallel()
	for rel, want := range map[string]int{
		"internal/policy":          100,
		"internal/turn/step":       100,
		"internal/turn":            85,
		"internal/policyfile":      85,
		"engine":                   85,
		"engine/cmd/harness":       85,
		"engine/enginetest":        0,
		"engine/enginetest/suite":  0,
		"engine/enginetestimony":   85,
		"engine/sdk":               0,
		"functions/shell":          0,
		"scripts/check":            0,
		"enginex":                  0,
		".":                        0,
		"internal/provider/openai": 85,
	} {
		if got := gate(rel); got != want {
			t.Errorf("gate(%q): got %d, want %d", rel, got, want)
		}
	}
}

// pkg is a package of the module m.
func pkg(rel, name string) gopkg.Package {
	p := gopkg.Package{ImportPath: "m/" + rel, Name: name}
	p.Module.Path = "m"
	return p
}

// TestMeasureAndPrint has the limits of each gate from both sides.
func TestMeasureAndPrint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pkg    gopkg.Package
		blocks []block
		want   string
		failed int
	}{
		{"common gate met exactly", pkg("engine/a", "a"), []block{{"m/engine/a/a.go", 1, 85, true}, {"m/engine/a/a.go", 9, 15, false}},
			"coverage  engine/a  85.0 %  of 85 %\n", 0},
		{"common gate missed by one", pkg("engine/a", "a"), []block{{"m/engine/a/a.go", 1, 84, true}, {"m/engine/a/a.go", 9, 16, false}},
			"coverage  engine/a  84.0 %  of 85 %  not covered: a.go:9\n", 1},
		{"full gate met", pkg("internal/policy", "policy"), []block{{"m/internal/policy/a.go", 1, 7, true}},
			"coverage  internal/policy  100.0 %  of 100 %\n", 0},
		{"full gate missed by one in ten thousand", pkg("internal/turn/step", "step"),
			[]block{{"m/internal/turn/step/a.go", 1, 9999, true}, {"m/internal/turn/step/b.go", 5, 1, false}},
			"coverage  internal/turn/step  99.9 %  of 100 %  not covered: b.go:5\n", 1},
		{"small main.go is not counted", pkg("engine/cmd/x", "main"),
			[]block{{"m/engine/cmd/x/main.go", 1, 10, false}, {"m/engine/cmd/x/run.go", 1, 2, true}},
			"coverage  engine/cmd/x  100.0 %  of 85 %\n", 0},
		{"large main.go is counted", pkg("engine/cmd/x", "main"),
			[]block{{"m/engine/cmd/x/main.go", 1, 9, false}, {"m/engine/cmd/x/main.go", 40, 2, false}, {"m/engine/cmd/x/run.go", 1, 2, true}},
			"coverage  engine/cmd/x  15.3 %  of 85 %  not covered: main.go:1, main.go:40\n", 1},
		{"main.go of another package is counted", pkg("engine/a", "a"), []block{{"m/engine/a/main.go", 1, 1, false}},
			"coverage  engine/a  0.0 %  of 85 %  not covered: main.go:1\n", 1},
		{"no statement", pkg("engine/a", "a"), nil, "", 0},
		{"no gate", pkg("functions/a", "main"), []block{{"m/functions/a/a.go", 1, 9, false}}, "", 0},
		{"a package below is not counted", pkg("engine/a", "a"), []block{{"m/engine/a/b/b.go", 1, 9, false}, {"m/engine/a/a.go", 1, 1, true}},
			"coverage  engine/a  100.0 %  of 85 %\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			failed := printCoverage(&out, measure([]gopkg.Package{tt.pkg}, tt.blocks), everyPackage)
			if diff := cmp.Diff(tt.want, out.String()); diff != "" || failed != tt.failed {
				t.Errorf("got %d failed, want %d; table (-want +got):\n%s", failed, tt.failed, diff)
			}
		})
	}
}

func TestPrintCoverageShortens(t *testing.T) {
	t.Parallel()
	var missed []string
	for n := range 14 {
		missed = append(missed, fmt.Sprintf("a.go:%d", n))
	}
	var out strings.Builder
	failed := printCoverage(&out, []coverage{
		{rel: "engine/good", gate: 85, statements: 10, hit: 10},
		{rel: "engine/bad", gate: 85, statements: 14, missed: missed},
	}, belowGate)
	if got := out.String(); failed != 1 || strings.Contains(got, "engine/good") || !strings.HasSuffix(got, "a.go:11 and 2 more\n") {
		t.Errorf("got %d failed and %q; want the one package below its gate, with 12 places and the number of the others", failed, got)
	}
}
