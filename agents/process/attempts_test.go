//go:build linux && (amd64 || arm64)

package process_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

// bait are the targets of tryAll: harmless things that a program without a sandbox can
// reach.
type bait struct {
	Folder   string `json:"folder"`   // with the files secret and program
	TCP      string `json:"tcp"`      // host:port of a listener
	UDP      string `json:"udp"`      // host:port
	Unix     string `json:"unix"`     // path of a stream socket
	Datagram string `json:"datagram"` // path of a datagram socket
	Abstract string `json:"abstract"` // name of an abstract stream socket
	Process  int    `json:"process"`  // of the same user
}

// attempt is one thing that a hijacked program tries.
type attempt struct {
	name, does string
	elsewhere  bool // some machines refuse it to everybody
	try        func(bait) error
}

var attempts = []attempt{
	{name: "read-file", does: "read a file of the same user", try: func(b bait) error { return read(filepath.Join(b.Folder, "secret")) }},
	{name: "list-folder", does: "list a folder of the same user", try: func(b bait) error { _, err := os.ReadDir(b.Folder); return err }},
	{name: "read-accounts", does: "read /etc/passwd", try: func(bait) error { return read("/etc/passwd") }},
	{name: "read-environment", does: "read the environment of another process", try: func(b bait) error { return read(fmt.Sprintf("/proc/%d/environ", b.Process)) }},
	{name: "read-attribute", does: "read an attribute of a file of the same user", elsewhere: true, try: func(b bait) error {
		_, err := unix.Getxattr(filepath.Join(b.Folder, "secret"), baitAttribute, make([]byte, 16))
		return err
	}},
	{name: "write-file", does: "write a new file", try: func(b bait) error { return os.WriteFile(filepath.Join(b.Folder, "written"), nil, 0o600) }},
	{name: "write-temporary", does: "write a file for temporary files", try: func(bait) error {
		name := filepath.Join(os.TempDir(), fmt.Sprintf("bcpmesh-attempt-%d", os.Getpid()))
		return errors.Join(os.WriteFile(name, nil, 0o600), os.RemoveAll(name))
	}},
	{name: "cut-file", does: "cut a file short", try: func(b bait) error { return os.Truncate(filepath.Join(b.Folder, "cut"), 0) }},
	{name: "remove-file", does: "remove a file", try: func(b bait) error { return os.Remove(filepath.Join(b.Folder, "removed")) }},
	{name: "open-file", does: "let others read a file", try: func(b bait) error { return os.Chmod(filepath.Join(b.Folder, "mode"), 0o644) }},
	{name: "touch-file", does: "change the time of a file", try: func(b bait) error { return os.Chtimes(filepath.Join(b.Folder, "mode"), time.Time{}, time.Unix(1, 0)) }},
	{name: "lease-file", does: "have whoever opens a file wait", elsewhere: true, try: func(bait) error { return onItself(control(unix.F_SETLEASE, unix.F_RDLCK)) }},
	{name: "watch-folder", does: "hear who changes a folder", elsewhere: true, try: func(bait) error { return onItself(control(unix.F_NOTIFY, 2)) }}, // DN_MODIFY
	{name: "change-file", does: "change the flags of a file", elsewhere: true, try: func(bait) error { return onItself(changeFlags) }},
	{name: "lock-file", does: "lock a file that others read", try: func(bait) error {
		return onItself(func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_SH|unix.LOCK_NB) })
	}},
	{name: "lock-range", does: "lock a range of a file that others read", try: func(bait) error { return onItself(lockRanges) }},
	{name: "run-program", does: "run a program of its own making", try: func(b bait) error { return exec.Command(filepath.Join(b.Folder, "program")).Run() }},
	{name: "run-memory", does: "run a program that is in memory alone", try: func(bait) error { return runMemory() }},
	{name: "grow", does: "hold more memory than its limit", elsewhere: true, try: func(bait) error { return grow() }},
	{name: "tcp", does: "connect over TCP", try: func(b bait) error { return dial("tcp", b.TCP) }},
	{name: "mptcp", does: "connect over Multipath TCP", elsewhere: true, try: func(b bait) error { return multipath(b.TCP) }},
	{name: "udp", does: "send a packet over UDP", try: func(b bait) error { return dial("udp", b.UDP) }},
	{name: "dns", does: "have a name server asked", try: askName},
	{name: "listen", does: "listen for connections", try: func(bait) error { return closed(net.Listen("tcp", "127.0.0.1:0")) }},
	{name: "unix", does: "connect to a socket in the file system", try: func(b bait) error { return dial("unix", b.Unix) }},
	{name: "unix-abstract", does: "connect to a socket without a file", try: func(b bait) error { return dial("unix", "@"+b.Abstract) }},
	{name: "unix-datagram", does: "send to a socket in the file system from a pair", try: func(b bait) error { return fromPair(b.Datagram) }},
	{name: "raw", does: "open a raw socket", elsewhere: true, try: func(bait) error { return open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{name: "packet", does: "open a packet socket", elsewhere: true, try: func(bait) error { return open(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{name: "netlink", does: "open a netlink socket", try: func(bait) error { return open(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }},
	{name: "vsock", does: "open a socket to the host of a virtual machine", elsewhere: true, try: func(bait) error { return open(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{name: "io-uring", does: "set up io_uring", elsewhere: true, try: func(bait) error {
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if errno == unix.EFAULT {
			return nil // it was allowed to say how, nowhere
		}
		return errno
	}},
	{name: "signal", does: "signal another process", try: func(b bait) error { return unix.Kill(b.Process, 0) }},
	{name: "trace", does: "trace another process", elsewhere: true, try: trace},
	{name: "read-memory", does: "read the memory of another process", elsewhere: true, try: func(b bait) error {
		var into [1]byte
		_, err := unix.ProcessVMReadv(b.Process, []unix.Iovec{{Base: &into[0], Len: 1}}, []unix.RemoteIovec{{Base: 4096, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) {
			return nil // it was allowed to look where nothing is
		}
		return err
	}},
	{name: "limits", does: "look at the limits of another process", try: func(b bait) error { return unix.Prlimit(b.Process, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) }},
	{name: "shared-memory", does: "share memory with another process", elsewhere: true, try: func(bait) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	}},
	{name: "queues", does: "use a queue or semaphores of another process", elsewhere: true, try: func(bait) error { return byNumber() }},
	{name: "keyring", does: "look at the user's keys in the kernel", elsewhere: true, try: func(bait) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false)
		return err
	}},
	{name: "namespace", does: "make a user namespace", elsewhere: true, try: func(bait) error { return run(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}) }},
	{name: "leave-group", does: "leave the process group, to outlive it", try: func(bait) error { return run(&syscall.SysProcAttr{Setpgid: true}) }},
	{name: "privileges", does: "have capabilities", elsewhere: true, try: func(bait) error {
		var data [2]unix.CapUserData
		if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
			return err
		}
		if data[0].Permitted|data[1].Permitted == 0 {
			return unix.EPERM
		}
		return nil
	}},
}

// tryAll tries everything, never stops at what fails, and returns the system's refusals by the names of the attempts: empty
// where something was reached.
func tryAll(b bait) map[string]string {
	refusals := map[string]string{}
	for _, a := range attempts {
		refusals[a.name] = ""
		if err := a.try(b); err != nil {
			refusals[a.name] = cmp.Or(err.Error(), "refused")
		}
	}
	return refusals
}

// onItself does something with the program's own file, which it may read. Some users do not own theirs.
func onItself(do func(fd uintptr) error) error {
	name, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(do(file.Fd()), file.Close())
}

// control asks something of a file by fcntl.
func control(command, argument int) func(fd uintptr) error {
	return func(fd uintptr) error {
		_, err := unix.FcntlInt(fd, command, argument)
		if errors.Is(err, unix.ENOTDIR) {
			err = nil // it was allowed to say so, of a folder
		}
		return err
	}
}

// lockRanges locks a part of a file in each of the ways, and asks for the locks of others.
func lockRanges(fd uintptr) (err error) {
	for _, way := range []int{unix.F_SETLK, unix.F_SETLKW, unix.F_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_OFD_GETLK} {
		if err = unix.FcntlFlock(fd, way, &unix.Flock_t{Type: unix.F_RDLCK, Len: 1}); err == nil {
			return nil
		}
	}
	return err
}

// changeFlags would change flags of a file.
func changeFlags(fd uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.FS_IOC_SETFLAGS, 0); errno != unix.EFAULT {
		return errno
	}
	return nil // it was allowed to say which, nowhere
}

// runMemory runs a copy of /bin/true from a file in memory.
func runMemory() error {
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("program", 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "program")
	defer file.Close()
	if _, err := file.Write(program); err != nil {
		return err
	}
	return (&exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", fd), Args: []string{"true"}}).Run()
}

// grow asks for more than [process.SandboxMemory] in each of the ways that there are, and writes into none of it.
func grow() error {
	const more, protection = process.SandboxMemory + 64<<20, unix.PROT_READ | unix.PROT_WRITE
	if process.SandboxMemory == 0 {
		return errors.New("there is no limit")
	}
	for _, flags := range []int{unix.MAP_PRIVATE, unix.MAP_SHARED, unix.MAP_SHARED_VALIDATE, unix.MAP_PRIVATE | unix.MAP_GROWSDOWN} {
		if memory, err := unix.Mmap(-1, 0, more, protection, flags|unix.MAP_ANONYMOUS); err == nil {
			return unix.Munmap(memory)
		}
	}
	if fd, err := unix.MemfdCreate("memory", 0); err == nil {
		return errors.Join(unix.Ftruncate(fd, more), unix.Close(fd))
	}
	if fd, err := unix.MemfdSecret(0); err == nil {
		return unix.Close(fd)
	}
	stack := unix.Rlimit{Cur: more, Max: more}
	return unix.Setrlimit(unix.RLIMIT_STACK, &stack)
}

// byNumber uses what processes share by its number, as whoever guesses one can.
func byNumber() error {
	for _, call := range []uintptr{unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_SHMCTL} {
		const nobodys = ^uintptr(0)
		if _, _, errno := unix.Syscall6(call, nobodys, 0, 1, 0, 0, 0); errno == unix.EINVAL || errno == unix.EFAULT {
			return nil // it was allowed to name one that is not there
		}
	}
	return unix.EPERM
}

func read(name string) error {
	_, err := os.ReadFile(name)
	return err
}

// patience bounds an attempt over a network.
const patience = 10 * time.Second

// dial connects and sends a byte.
func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("x"))
	return errors.Join(err, conn.Close())
}

// multipath connects over Multipath TCP, which Landlock does not see.
func multipath(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return err
	}
	return closedFile(fd, unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}))
}

// askName has a name server asked, whatever it answers.
func askName(b bait) error {
	asked := make(chan error, 1)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", b.UDP)
		select {
		case asked <- err:
		default: // it was asked for two kinds of addresses
		}
		return conn, err
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = resolver.LookupHost(ctx, "secret.example.")
	select {
	case err := <-asked:
		return err
	default:
		return errors.New("nobody was asked")
	}
}

func open(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	return closedFile(fd, err)
}

// fromPair sends to a socket that a pair of datagram sockets was never connected to.
func fromPair(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	err = unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: path})
	return errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
}

// trace attaches to a process for a moment.
func trace(b bait) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(b.Process), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil // it is let go of when this process ends
}

// run starts a program in a way.
func run(how *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = how
	return cmd.Run()
}

func closed(c io.Closer, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// closedFile is err, and closes fd if there is none.
func closedFile(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// newBait lays out in a folder, which is empty, what tryAll tries to reach. close takes the sockets away, not the files.
// What connects is taken and left alone.
func newBait(folder string) (b bait, close func(), err error) {
	b = bait{Folder: folder, Unix: filepath.Join(folder, "stream"), Datagram: filepath.Join(folder, "datagram"), Abstract: fmt.Sprintf("bcpmesh-bait-%d-%d", os.Getpid(), time.Now().UnixNano()), Process: os.Getpid()}
	var closers []io.Closer
	close = func() {
		for _, c := range closers {
			_ = c.Close() // nothing was written
		}
	}
	defer func() {
		if err != nil {
			close()
		}
	}()
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "cut": 0o600, "removed": 0o600, "mode": 0o600, "program": 0o700} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), mode); err != nil {
			return b, close, err
		}
	}
	_ = unix.Setxattr(filepath.Join(folder, "secret"), baitAttribute, []byte("x"), 0) // not all file systems have them
	for _, l := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", b.Unix}, {"unix", "@" + b.Abstract}} {
		listener, err := net.Listen(l.network, l.address)
		if err != nil {
			return b, close, err
		}
		closers = append(closers, listener)
		if l.network == "tcp" {
			b.TCP = listener.Addr().String()
		}
	}
	for _, l := range []struct{ network, address string }{{"udp", "127.0.0.1:0"}, {"unixgram", b.Datagram}} {
		conn, err := net.ListenPacket(l.network, l.address)
		if err != nil {
			return b, close, err
		}
		closers = append(closers, conn)
		if l.network == "udp" {
			b.UDP = conn.LocalAddr().String()
			go answerNames(conn)
		}
	}
	return b, close, nil
}

// baitAttribute is an attribute of the file secret.
const baitAttribute = "user.bcpmesh.secret"

// answerNames refuses every question, so that nobody waits for an answer.
func answerNames(conn net.PacketConn) {
	var buffer [1500]byte
	for {
		n, from, err := conn.ReadFrom(buffer[:])
		if err != nil {
			return
		}
		if n >= 12 {
			buffer[2], buffer[3] = 0x80, 5 // a response: refused
			_, _ = conn.WriteTo(buffer[:n], from)
		}
	}
}
