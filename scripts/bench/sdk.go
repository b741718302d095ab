package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/iii-aws/harness/engine/sdk"
)

// figure is one line of the table: what was measured, and what the public iii
// engine showed with the same SDK on a machine of two cores.
type figure struct{ name, what, engine string }

var figures = []figure{
	{"sync", "sync call", "0.37 / 0.69 / 2.0 ms"},
	{"flood", "calls at 64 in flight", "6.8 / 11.3 / 16.4 ms, 9,190/s"},
	{"void", "void call to handler", "0.21 / 0.47 / 1.3 ms"},
	{"set", "state::set, on disk", "0.27 / 0.42 / 0.82 ms (not durable)"},
	{"changed", "state::set to trigger handler, on disk", "0.54 / 0.87 / 1.5 ms (not durable)"},
	{"publish", "durable publish to subscriber", "53 / 99 / 102 ms"},
	{"jobs", "durable jobs", "100/s"},
	{"memory set", "state::set, data folder in memory", "0.27 / 0.42 / 0.82 ms"},
	{"memory changed", "state::set to trigger handler, data folder in memory", "0.54 / 0.87 / 1.5 ms"},
	{"ready", "start to ready", "15-31 ms"},
	{"rss", "memory, idle, two workers connected", "50 MB"},
}

// inMemory is a folder that is no disk; absent on some systems.
const inMemory = "/dev/shm"

// sdkFigures measures `dev` with two processes on the stock Node SDK, and
// prints the figures beside those of the engine.
func sdkFigures(ctx context.Context, opts options, out, errOut io.Writer) error {
	work, err := os.MkdirTemp("", "harness-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := bench{ctx: ctx, scale: fmt.Sprint(opts.scale), program: filepath.Join(work, "harness"), work: work, got: map[string]string{}}
	if err := sdk.Build(ctx, opts.dir, b.program); err != nil {
		return err
	}
	if err := b.starts(); err != nil {
		return err
	}
	if err := b.run("", work); err != nil {
		return err
	}
	if _, err := os.Stat(inMemory); err == nil {
		dir, err := os.MkdirTemp(inMemory, "harness-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := b.run("memory ", dir); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(errOut, "bench: no %s: not measured without a disk\n", inMemory)
	}
	return b.print(out)
}

type bench struct {
	ctx           context.Context
	program, work string
	scale         string
	got           map[string]string
}

// starts measures how long a fresh start takes.
func (b *bench) starts() error {
	var took []float64
	for range 9 {
		dir, err := os.MkdirTemp(b.work, "start")
		if err != nil {
			return err
		}
		began := time.Now()
		s, err := sdk.Serve(b.program, dir)
		if err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		if err := s.Stop(); err != nil {
			return err
		}
	}
	slices.Sort(took)
	b.got["ready"] = fmt.Sprintf("%.0f ms (%.0f-%.0f)", took[len(took)/2], took[0], took[len(took)-1])
	return nil
}

// run makes all measurements on one server whose data is in dir. prefix goes
// before their names.
func (b *bench) run(prefix, dir string) error {
	dir, err := os.MkdirTemp(dir, "serve")
	if err != nil {
		return err
	}
	s, err := sdk.Serve(b.program, dir)
	if err != nil {
		return err
	}
	err = b.measure(prefix, s)
	return errors.Join(err, s.Stop())
}

func (b *bench) measure(prefix string, s *sdk.Server) error {
	callee, err := b.node("serve", s.Ready.Bus)
	if err != nil {
		return err
	}
	defer callee.Kill()
	caller, err := b.node("ask", s.Ready.Bus)
	if err != nil {
		return err
	}
	defer caller.Kill()
	defer context.AfterFunc(b.ctx, caller.Kill)()
	if prefix == "" {
		if b.got["rss"], err = rss(s.PID()); err != nil {
			return err
		}
	}
	for {
		text, err := caller.Line()
		var line struct {
			Name      string    `json:"name"`
			Took      []float64 `json:"took"`
			PerSecond float64   `json:"per_second"`
		}
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		switch {
		case err != nil:
			return fmt.Errorf("the calling process: %w\n%s", err, caller.Log)
		case line.Name == "end":
			return nil
		default:
			b.got[prefix+line.Name] = summary(line.Took, line.PerSecond)
		}
	}
}

// node starts one end.
func (b *bench) node(role, url string) (*sdk.Process, error) {
	dir, err := os.MkdirTemp(b.work, role)
	if err != nil {
		return nil, err
	}
	argv, err := sdk.Node.Command(dir, "bench.mjs")
	if err != nil {
		return nil, err
	}
	return sdk.StartProcess(dir, append(argv, role, url, b.scale), "OTEL_ENABLED=false")
}

// summary is p50 / p95 / p99 in milliseconds, and a rate if there is one.
func summary(took []float64, perSecond float64) string {
	var parts []string
	if n := len(took); n > 0 {
		slices.Sort(took)
		parts = append(parts, fmt.Sprintf("%.2f / %.2f / %.2f ms", took[n/2], took[n*95/100], took[n*99/100]))
	}
	if perSecond > 0 {
		parts = append(parts, fmt.Sprintf("%.0f/s", perSecond))
	}
	return strings.Join(parts, ", ")
}

// rss is the resident memory of a process.
func rss(pid int) (string, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, os.ErrNotExist) {
		return "not known on this system", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return fmt.Sprintf("%d MB", kb/1024), err
		}
	}
	return "", errors.New("no VmRSS in the status of the process")
}

func (b *bench) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "p50 / p95 / p99\tdev\tiii engine 0.23.0-rc.4, two cores")
	for _, f := range figures {
		got := b.got[f.name]
		if got == "" {
			got = "not measured"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.what, got, f.engine)
	}
	return t.Flush()
}
