package gopkg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Package is one package of the module, as `go list` describes it.
type Package struct {
	// ImportPath is the full import path.
	ImportPath string
	// Name is the name in the package clause.
	Name string
	// Dir is the absolute folder of its files.
	Dir string
	// TestGoFiles are the _test.go files in the package itself, names without a folder.
	TestGoFiles []string
	// XTestGoFiles are the _test.go files in the package's _test package.
	XTestGoFiles []string
	// Module is the module the package belongs to.
	Module struct {
		// Path is the module's path, a prefix of ImportPath.
		Path string
	}
	// Error is what go list found wrong with the package or with the pattern that named it.
	Error *struct {
		// Err is the text of it.
		Err string
	}
}

// Rel is the import path below the module path ("engine/router"), or "." for the module's root.
func (p Package) Rel() string {
	rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// List returns the packages that patterns match in the module around dir, sorted by import path. A
// package with errors in it is listed all the same: the compiler reports those better. A pattern that
// names no folder is an error with what go list said of it.
func List(ctx context.Context, dir string, patterns ...string) ([]Package, error) {
	args := append([]string{"list", "-e", "-find", "-json=ImportPath,Name,Dir,TestGoFiles,XTestGoFiles,Module,Error", "--"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(patterns, " "), err, strings.TrimSpace(stderr.String()))
	}
	var packages []Package
	for dec := json.NewDecoder(&stdout); ; {
		var p Package
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: output is not JSON: %w", err)
		}
		if p.Dir == "" && p.Error != nil {
			return nil, fmt.Errorf("go list %s: %s", p.ImportPath, p.Error.Err)
		}
		packages = append(packages, p)
	}
}
