package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// gofmt lists the Go files whose format is not gofmt's, and those that are not Go. It leaves out what
// the go command leaves out of ./... (testdata, folders that start with a dot or an underscore) and
// code that other tools bring.
func (c *checker) gofmt(t *tally) error {
	var bad int
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != c.dir && (name == "testdata" || name == "node_modules" || name == "vendor" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch want, err := format.Source(src); {
		case err != nil:
			bad++
			fmt.Fprintf(c.out, "%s:%v\n", path, err)
		case !bytes.Equal(src, want):
			bad++
			fmt.Fprintln(c.out, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("gofmt: %w", err)
	}
	if bad > 0 {
		t.problem("gofmt: files that need formatting: %d; run: make fmt", bad)
	}
	return nil
}
