//go:build unix

package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// TestMain is also the program that leaves its process group, as daemons do.
func TestMain(m *testing.M) {
	if os.Getenv("SHELL_TEST_DAEMON") != "" {
		daemon()
		return
	}
	os.Exit(m.Run())
}

// daemon begins a session of its own and holds its outputs open until it is
// killed.
func daemon() {
	if _, err := syscall.Setsid(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(os.NewFile(3, "leash"), os.Getpid())
	time.Sleep(time.Minute) // a last resort: the test kills it
}

// leash tells when a command has come to a point, and when all that it started
// is gone: they hold a pipe open.
type leash struct {
	t    *testing.T
	said chan string
	gone chan struct{}
}

// newLeash makes the pipe; a line that begins with hold holds it as 3.
func newLeash(r *rig, t *testing.T) *leash {
	t.Helper()
	path := filepath.Join(r.root, "leash")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &leash{t: t, said: make(chan string, 10), gone: make(chan struct{})}
	go func() {
		defer close(l.gone)
		f, err := os.Open(path) // waits for the command
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			l.said <- lines.Text()
		}
		if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}()
	return l
}

const hold = "exec 3>leash; "

func (l *leash) next() string {
	l.t.Helper()
	select {
	case s := <-l.said:
		return s
	case <-time.After(20 * time.Second):
		l.t.Fatal("the command said nothing")
		return ""
	}
}

// dead fails if anything still holds the leash.
func (l *leash) dead() {
	l.t.Helper()
	select {
	case <-l.gone:
	case <-time.After(20 * time.Second):
		l.t.Fatal("something of the command still runs")
	}
}

type answer struct {
	out ExecResponse
	err error
}

// begin runs a command beside the test.
func (r *rig) begin(ctx context.Context, req ExecRequest) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		out, err := invoke[ExecResponse](r, ctx, "shell::exec", req, &bus.Reply{SessionID: "s1"})
		done <- answer{out, err}
	}()
	return done
}

// The commands of which nothing may be left.
var stubborn = map[string]string{
	"one that ignores signals":        hold + "trap '' TERM INT HUP; echo said; echo up >&3; while :; do sleep 600; done",
	"one with children":               hold + "sleep 600 & sleep 600 & echo said; echo up >&3; wait",
	"one with stubborn grandchildren": hold + "sh -c 'trap \"\" TERM HUP; (trap \"\" TERM HUP; sleep 600) & sleep 600' & echo said; echo up >&3; wait",
	"one that writes without end":     hold + "echo said; echo up >&3; exec yes >/dev/null",
}

func TestLimitKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, line := range stubborn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l := newLeash(r, t)
			done := r.begin(t.Context(), ExecRequest{Command: line, TimeoutMS: 5000})
			l.next()
			r.clock.BlockUntil(1)
			r.clock.Advance(5*time.Second - 1)
			select {
			case a := <-done:
				t.Fatalf("ended before its limit: %+v", a)
			default:
			}
			r.clock.Advance(1)
			a := <-done
			if a.err != nil || !a.out.TimedOut || a.out.Success || a.out.ExitCode != 137 || a.out.Stdout != "said\n" || a.out.DurationMS != 5000 {
				t.Errorf("%+v", a)
			}
			l.dead()
		})
	}
}

func TestCallerThatGivesUpKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*rig, context.CancelFunc)
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{name: "abort", ctx: context.WithCancel, end: func(_ *rig, cancel context.CancelFunc) { cancel() }, want: context.Canceled},
		{
			name: "deadline", end: func(*rig, context.CancelFunc) {}, want: context.DeadlineExceeded,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
		},
		{
			name: "shutdown", ctx: context.WithCancel, want: context.Canceled,
			end: func(r *rig, _ context.CancelFunc) {
				if err := r.shell.Close(); err != nil {
					r.t.Error(err)
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l := newLeash(r, t)
			ctx, cancel := tt.ctx(t.Context())
			defer cancel()
			done := r.begin(ctx, ExecRequest{Command: stubborn["one with stubborn grandchildren"]})
			l.next()
			tt.end(r, cancel)
			a := <-done
			wantError(t, tt.name, a.err, CodeStopped, "stopped")
			if !errors.Is(a.err, tt.want) {
				t.Errorf("error %v, want %v", a.err, tt.want)
			}
			l.dead()
			if r.clock.Waiting() != 0 {
				t.Error("a timer was left behind")
			}
		})
	}
}

// What runs on in the background when the command has ended belongs to the
// call: it is killed, and not waited for.
func TestBackgroundEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := newLeash(r, t)
	a := <-r.begin(t.Context(), ExecRequest{Command: hold + "sleep 600 & echo said; echo up >&3; exit 4"})
	if a.err != nil || a.out.TimedOut || a.out.ExitCode != 4 || a.out.Stdout != "said\n" {
		t.Errorf("%+v", a)
	}
	l.dead()
}

// A process that has left the group holds the output open. The call waits for
// it as long as its grace, not longer.
func TestDaemonIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, rest string
		limit      bool
	}{
		{"after the end of the command", "head -c 300000 /dev/zero | tr '\\0' x", false},
		{"at the limit of the command", "echo said; sleep 600", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l := newLeash(r, t)
			if err := syscall.Mkfifo(filepath.Join(r.root, "go"), 0o600); err != nil {
				t.Fatal(err)
			}
			done := r.begin(t.Context(), ExecRequest{Command: hold + "SHELL_TEST_DAEMON=1 '" + self + "' & read x < go; " + tt.rest, TimeoutMS: 5000})
			pid, err := strconv.Atoi(l.next())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
				l.dead()
			}()
			if err := os.WriteFile(filepath.Join(r.root, "go"), []byte("on\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			timers := 2 // that of the limit, and that of the grace
			if tt.limit {
				r.clock.BlockUntil(1)
				r.clock.Advance(5 * time.Second)
				timers = 1
			}
			r.clock.BlockUntil(timers)
			r.clock.Advance(grace - 1)
			select {
			case a := <-done:
				t.Fatalf("the output was not waited for: %+v", a)
			default:
			}
			r.clock.Advance(1)
			a := <-done
			// A pipe holds less than that, so most of it was read before the end.
			if a.err != nil || a.out.TimedOut != tt.limit || len(a.out.Stdout) < 100_000 && !tt.limit {
				t.Errorf("%d bytes, %+v", len(a.out.Stdout), a)
			}
		})
	}
}

func TestCommandsRunAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var running []<-chan answer
	for i := range 8 {
		running = append(running, r.begin(t.Context(), ExecRequest{Command: fmt.Sprintf("echo %d; exit %d", i, i)}))
	}
	for i, done := range running {
		if a := <-done; a.err != nil || a.out.ExitCode != i || strings.TrimSpace(a.out.Stdout) != strconv.Itoa(i) {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

func TestCommandHasASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out := r.sh("echo $$; exec ps -o pid=,pgid=,sid= -p $$")
	if strings.Contains(out.Stderr, "not found") {
		out = r.sh("read -r pid comm state ppid pgid sid rest < /proc/$$/stat; echo $pid; echo $pid $pgid $sid")
	}
	f := strings.Fields(out.Stdout)
	if len(f) != 4 || f[0] != f[1] || f[1] != f[2] || f[2] != f[3] {
		t.Errorf("pid, group and session are %q, %s", f, out.Stderr)
	}
}

// A process that is stuck in the kernel is not waited for either: this one
// seems to run on, because nobody tells of its end.
func TestProcessThatDoesNotDie(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := &process{cmd: exec.Command("sleep", "600"), read: make(chan struct{}), exited: make(chan *os.ProcessState)}
	ownGroup(p.cmd)
	for i := range p.readers {
		var w *os.File
		var err error
		if p.readers[i], w, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer w.Close()
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // the reader of the outputs, which ends when they are closed
		defer close(p.read)
		_, _ = io.Copy(io.Discard, p.readers[0])
	}()
	done := make(chan ending, 1)
	go func() {
		end, err := r.shell.await(t.Context(), p, time.Second)
		if err != nil {
			t.Error(err)
		}
		done <- end
	}()
	r.clock.BlockUntil(1)
	r.clock.Advance(time.Second)
	r.clock.BlockUntil(1)
	r.clock.Advance(grace)
	if end := <-done; end.code != 137 || !end.timedOut {
		t.Errorf("%+v", end)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

func TestNothingStaysOpen(t *testing.T) { // not parallel: it counts what is open
	r := newRig(t)
	r.link("../secret.txt", "out")
	work := func() {
		if _, err := r.read("a.txt"); err != nil {
			t.Error(err)
		}
		for _, path := range []string{"out", "nothing", "docs", ".harness"} {
			if _, err := r.read(path); err == nil {
				t.Errorf("%s was read", path)
			}
		}
		if _, err := r.ls("a.txt"); err == nil {
			t.Error("a file was listed")
		}
		r.sh("sleep 600 & echo said")
		if _, err := r.exec(ExecRequest{Command: "no-such-program", Args: []string{"x"}}); err == nil {
			t.Error("no program was run")
		}
		r.shell.wg.Wait()
	}
	work() // what is opened once
	before := openFiles(t)
	for range 20 {
		work()
	}
	if now := openFiles(t); now > before {
		t.Errorf("%d files were open, %d are", before, now)
	}
	if r.clock.Waiting() != 0 {
		t.Errorf("%d timers wait", r.clock.Waiting())
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
