// Sdks installs the stock iii SDKs that the tests of engine/sdk and the benchmarks run, as pinned there,
// into the user's cache. It needs node with npm, python3 with venv, and their registries. What is
// installed already is left alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/iii-aws/harness/engine/sdk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	for _, l := range sdk.Languages {
		if err := install(ctx, l, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "sdks: %s: %v\n", l, err)
			code = 1
		}
	}
	stop()
	os.Exit(code)
}

// install brings an SDK into its folder. One that was begun and not finished
// is begun anew.
func install(ctx context.Context, l sdk.Language, log io.Writer) error {
	var missing *sdk.NotInstalledError
	if _, err := l.Installed(); !errors.As(err, &missing) {
		return err
	}
	dir, err := l.Folder()
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "sdks: installing the %s SDK into %s\n", l, dir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range l.Pins() {
		text, err := sdk.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			return err
		}
	}
	steps := [][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}}
	if l == sdk.Python {
		steps = [][]string{
			{"python3", "-m", "venv", "."},
			{filepath.Join("bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-r", "requirements.txt"},
			{filepath.Join("bin", "python"), "-c", "import iii"},
		}
	}
	for _, argv := range steps {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
	}
	return os.WriteFile(filepath.Join(dir, sdk.Done), nil, 0o600)
}
