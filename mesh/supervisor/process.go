package supervisor

import (
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// process is one process that was started, with its process group. Its methods
// may be used concurrently.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it and its group are gone and its output was read

	mu     sync.Mutex
	closed bool // its group was killed and is not signalled again: the id may be another's by now
}

// start starts a program with exactly this environment. The error is one of
// ours, for [startError].
func start(program Program, env []string, logger hclog.Logger) (*process, error) {
	if len(program.Command) == 0 {
		return nil, errors.New("the command is empty")
	}
	path, err := lookUp(program.Command[0], env)
	if err != nil {
		return nil, err
	}
	if err := hideFiles(); err != nil {
		return nil, err
	}
	out := &output{logger: logger}
	stdout, stderr := newRedacted(out, stdoutName), newRedacted(out, stderrName)
	p := &process{
		cmd: &exec.Cmd{
			Path: path,
			Args: program.Command,
			// Not nil, which would mean our whole environment.
			Env:         append([]string{}, env...),
			Dir:         program.Dir,
			Stdout:      stdout,
			Stderr:      stderr,
			SysProcAttr: ownGroup(),
			WaitDelay:   outputDelay,
		},
		out:  out,
		done: make(chan struct{}),
	}
	started := make(chan error)
	go func() {
		// The kernel kills the process when the thread that started it ends
		// (ownGroup), not only when we do. So this goroutine keeps its thread
		// until the process is gone; it would wait for it in any case.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.wait()
		stdout.end()
		stderr.end()
		out.end()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// startError says in our words why there is no process.
func startError(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "not found"
	case errors.Is(err, fs.ErrPermission):
		return "not permitted"
	default:
		return "cannot be started"
	}
}

// wait waits for the end of the process, and leaves nothing of its group.
func (p *process) wait() {
	// While an ended process is not collected, no other can get its id, so
	// that the group that is killed is its own. Where one cannot wait without
	// collecting, a few instructions lie between the two.
	if awaitEnd(p.cmd.Process) {
		p.close()
	}
	// The error repeats the exit code, or says that somebody outside the group
	// holds the output open, whom WaitDelay cuts off.
	_ = p.cmd.Wait()
	p.close()
	for begin := time.Now(); groupExists(p.cmd.Process) && time.Since(begin) < groupDelay; {
		time.Sleep(groupPoll)
	}
}

// close kills what is left of the group, and lets nobody signal it again.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		killGroup(p.cmd.Process)
		p.closed = true
	}
}

// terminate asks the group to end.
func (p *process) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		terminateGroup(p.cmd.Process)
	}
}

// kill ends the group; done follows.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		killGroup(p.cmd.Process)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// exit says how the process ended, success whether with exit code 0; done is
// closed.
func (p *process) exit() string { return p.cmd.ProcessState.String() }

// lastLine is what it printed last; done is closed.
func (p *process) lastLine() string { return p.out.lastLine() }

func (p *process) success() bool { return p.cmd.ProcessState.Success() }
