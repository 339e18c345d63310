// Package process runs one foreign program in its own process group, with
// exactly the given environment, none of our open files, and no terminal. When
// the program ends, everything that it started is killed; on Linux also when we
// end, even by SIGKILL. A process that leaves the group goes on: a confined one
// cannot leave it.
//
// [Sandbox] confines it: [Sandbox.Command] starts a helper of this module, which
// calls [EnterSandbox] to confine itself and then becomes the program. [Output]
// makes its output safe to log.
package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// maxLine bounds how much of one line of output is kept, in bytes, since a
	// program could fill our memory.
	maxLine = 4 << 10
	// maxLines and maxBytes bound what is logged of one process in outputWindow,
	// both streams together, before escaping, which makes it at most five times
	// longer. Otherwise a program could fill the disk.
	maxLines     = 100
	maxBytes     = 64 << 10
	outputWindow = time.Second
	// maxLastLine bounds the last line in a status, in characters, escaped.
	maxLastLine = 200
)

const (
	// outputDelay is how long output is read after the process and its group
	// are gone: somebody who left the group may hold the pipe open for ever.
	outputDelay = time.Second
	// groupDelay is how long a killed group is waited for. Its processes can do
	// nothing any more, but count until init has collected them, and not every
	// container's init does.
	groupDelay = time.Second
	// groupPoll is the pause between two looks at a killed group.
	groupPoll = time.Millisecond
)

// Process is a started program with its process group. Its methods may be used
// concurrently.
type Process struct {
	cmd  *exec.Cmd
	bond bond
	done chan struct{} // closed when it and its group are gone and its output was read

	mu     sync.Mutex
	closed bool // its group was killed and is not signalled again: the id may be reused
}

// Start starts a program. Of the command, the caller sets Args, Dir, Stdin, Stdout and
// Stderr, and may set Path, which is otherwise looked up ([LookUp]), ExtraFiles, SysProcAttr,
// to which a new group is added, and Env, where nil means an empty one. Pass the error to
// [Reason].
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Path == "" {
		var err error
		if cmd.Path, err = LookUp(cmd.Args[0], cmd.Env); err != nil {
			return nil, err
		}
	}
	if err := hideFiles(); err != nil {
		return nil, err
	}
	// Not nil, which would mean our whole environment.
	cmd.Env = append([]string{}, cmd.Env...)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	ownGroup(cmd.SysProcAttr)
	cmd.WaitDelay = outputDelay
	bond, err := newBond()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, bond: bond, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the process when the thread that started it ends
		// (ownGroup), not only when we do. So this goroutine keeps its thread
		// until the process has ended; it waits for that anyway.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer p.bond.cut()
		err := p.cmd.Start()
		if err == nil {
			if err = p.bond.tie(p.cmd.Process); err != nil {
				p.Kill()
				p.wait()
			}
		}
		started <- err
		if err != nil {
			return
		}
		p.wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ends are ours of the pipes to a program: what we read from it, and write to it.
type Ends struct{ In, Out *os.File }

// Close closes them. It may be called twice.
func (e Ends) Close() {
	_ = e.In.Close() // or it was closed before
	_ = e.Out.Close()
}

// Open is Start of a program whose stdin and stdout are pipes. They are files, so that nothing
// is copied: a copy would outlive a program that no longer reads.
func Open(cmd *exec.Cmd) (p *Process, ours Ends, err error) {
	theirs := Ends{}
	if theirs.In, ours.Out, err = os.Pipe(); err != nil {
		return nil, ours, err
	}
	if ours.In, theirs.Out, err = os.Pipe(); err == nil {
		cmd.Stdin, cmd.Stdout = theirs.In, theirs.Out
		p, err = Start(cmd)
	}
	theirs.Close() // it has its own
	if err != nil {
		ours.Close()
	}
	return p, ours, err
}

// Reason says in our words why there is no process.
func Reason(err error) string {
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
func (p *Process) wait() {
	// Until an ended process is collected, its id is not reused, so the killed
	// group is its own. On systems that cannot wait without collecting, there
	// is a gap of a few instructions.
	if awaitEnd(p.cmd.Process) {
		p.close()
	}
	// The error repeats the exit code, or says that a process outside the group
	// keeps the output open; WaitDelay then closes it.
	_ = p.cmd.Wait()
	p.close()
	for begin := time.Now(); groupExists(p.cmd.Process) && time.Since(begin) < groupDelay; {
		time.Sleep(groupPoll)
	}
}

// close kills the rest of the group, and prevents further signals to it.
func (p *Process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		killGroup(p.cmd.Process)
		p.closed = true
	}
}

// Terminate asks the group to end.
func (p *Process) Terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		terminateGroup(p.cmd.Process)
	}
}

// Kill ends the group; Done follows.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		killGroup(p.cmd.Process)
	}
}

// EndBy waits until the process and its group have ended, and ends them when ctx does. It
// reports whether they ended by themselves.
func (p *Process) EndBy(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		p.Kill()
		<-p.done
		return false
	}
}

// Done is closed when the process and its group are gone, and its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the process id, which is also that of the group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State says how the process ended. Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }
