//go:build amd64 || arm64

package process

import (
	"os"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that fail with EPERM, whatever their arguments.
var denied = append([]uint32{
	// Sockets: a program speaks over the streams that it has, and no others.
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
	// What is shared with them outside of files. What is there already can be used by its number.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_SHMCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// Locks of files, which others read: they would wait, and two confined programs could talk by them.
	unix.SYS_FLOCK,
	// Files in memory, which neither Landlock nor a limit sees: they can be executed.
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	// Leaving the process group, by which all of it is ended.
	unix.SYS_SETSID, unix.SYS_SETPGID,
	// Files beside Landlock: what changes them without opening, or opens them without a path.
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// Other views of the system.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_PERSONALITY, unix.SYS_ACCT, unix.SYS_SYSLOG,
	// Large parts of the kernel that no agent needs. io_uring would also do what is refused here.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
}, deniedHere...)

// attributes are the system calls that read what stands beside the content of a file, which Landlock does not see, by its path.
// They say what they do where a file system has none.
var attributes = []uint32{
	unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_GETXATTRAT, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LISTXATTRAT,
}

// A condition refuses a system call by one of its arguments, of which the kernel reads these 32 bits.
type condition struct {
	call, argument uint32
	test           bpf.JumpTest // what is refused: argument test value
	value          uint32
	mask           uint32 // which bits of the argument are tested; 0 for all
}

// newNamespaces are the flags of clone that make one.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// conditions of a confined program, whose process id is pid.
func conditions(pid uint32, alone, signals bool) []condition {
	list := []condition{
		{unix.SYS_CLONE, 0, bpf.JumpBitsSet, newNamespaces &^ unix.CLONE_NEWTIME, 0}, // CLONE_NEWTIME is a signal here
		// A pair of streams is connected to itself. A datagram of a pair would reach any socket.
		{unix.SYS_SOCKETPAIR, 0, bpf.JumpNotEqual, unix.AF_UNIX, 0},
		{unix.SYS_SOCKETPAIR, 1, bpf.JumpBitsNotSet, unix.SOCK_STREAM, 0},
		{unix.SYS_SOCKETPAIR, 1, bpf.JumpBitsSet, socketTypes &^ unix.SOCK_STREAM, 0},
		// Its end when its keeper ends without a word.
		{unix.SYS_PRCTL, 0, bpf.JumpEqual, unix.PR_SET_PDEATHSIG, 0},
		// A lease of a file, which it need only read: whoever opens it waits for 45 seconds, and it hears of that. So it does
		// of what becomes of a folder.
		{unix.SYS_FCNTL, 1, bpf.JumpEqual, unix.F_SETLEASE, 0},
		{unix.SYS_FCNTL, 1, bpf.JumpEqual, setDelegation, 0},
		{unix.SYS_FCNTL, 1, bpf.JumpEqual, unix.F_NOTIFY, 0},
		// Memory that the limit of RLIMIT_DATA leaves out: what is shared, and what grows like a stack.
		{unix.SYS_MMAP, 3, bpf.JumpEqual, unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_SHARED | unix.MAP_ANONYMOUS},
		{unix.SYS_MMAP, 3, bpf.JumpBitsSet, unix.MAP_GROWSDOWN, 0},
		// Signals by way of a file, and characters typed into a terminal.
		{unix.SYS_FCNTL, 1, bpf.JumpEqual, unix.F_SETOWN, 0},
		{unix.SYS_FCNTL, 1, bpf.JumpEqual, unix.F_SETOWN_EX, 0},
		{unix.SYS_IOCTL, 1, bpf.JumpEqual, fiosetown, 0},
		{unix.SYS_IOCTL, 1, bpf.JumpEqual, unix.SIOCSPGRP, 0},
		{unix.SYS_IOCTL, 1, bpf.JumpEqual, unix.TIOCSTI, 0},
		{unix.SYS_IOCTL, 1, bpf.JumpEqual, unix.TIOCLINUX, 0},
		// Limits and processors of other processes: 0 is its own.
		{unix.SYS_PRLIMIT64, 0, bpf.JumpNotEqual, 0, 0},
		{unix.SYS_SCHED_SETAFFINITY, 0, bpf.JumpNotEqual, 0, 0},
	}
	for _, command := range []uint32{unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW} {
		list = append(list, condition{unix.SYS_FCNTL, 1, bpf.JumpEqual, command, 0})
	}
	if alone {
		list = append(list, condition{unix.SYS_CLONE, 0, bpf.JumpBitsNotSet, unix.CLONE_THREAD, 0})
	}
	if !signals {
		return list
	}
	// Only to itself and, by 0, to its group.
	for _, call := range []uint32{unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		list = append(list, condition{call, 0, bpf.JumpNotEqual, pid, 0})
	}
	return list
}

const (
	fiosetown     = 0x8901 // FIOSETOWN, which package unix lacks
	socketTypes   = 0xf    // SOCK_TYPE_MASK, too
	setDelegation = 1040   // F_SETDELEG, too: a lease of files and folders

	// The kinds of requests of ioctl.
	ofTerminals = unix.TCGETS & 0xff00
	ofSockets   = unix.SIOCGPGRP & 0xff00

	// lastCall is the newest system call that the filter was written for. What comes later, and the numbers of other
	// interfaces of the same kernel (x32), do not exist.
	lastCall = unix.SYS_RSEQ_SLICE_YIELD

	notPermitted = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	notHad       = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	notKnown     = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)
	notThere     = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

	// Offsets in struct seccomp_data, whose arguments have 64 bits each, the low half first.
	offsetCall, offsetArch, offsetArguments = 0, 4, 16
)

// filter is the program that judges system calls.
func filter(pid uint32, alone, signals bool) []bpf.Instruction {
	loadCall := bpf.LoadAbsolute{Off: offsetCall, Size: 4}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		loadCall,
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: lastCall, SkipTrue: 1},
		bpf.RetConstant{Val: notThere},
	}
	refuse := func(call, with uint32) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, bpf.RetConstant{Val: with})
	}
	// Its flags are behind a pointer. Callers fall back to clone.
	refuse(unix.SYS_CLONE3, notThere)
	for _, call := range attributes {
		refuse(call, notHad)
	}
	for _, call := range denied {
		refuse(call, notPermitted)
	}
	// What can be asked of terminals, pipes and sockets. File systems change files by others, which were opened to read.
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_IOCTL, SkipTrue: 6},
		bpf.LoadAbsolute{Off: offsetArguments + 8, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff00},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: ofTerminals, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: ofSockets, SkipTrue: 1},
		bpf.RetConstant{Val: notKnown},
		loadCall,
	)
	if alone {
		for _, call := range forking {
			refuse(call, notPermitted)
		}
	}
	if signals {
		refuse(unix.SYS_TKILL, notPermitted)
		refuse(unix.SYS_PIDFD_SEND_SIGNAL, notPermitted)
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_KILL, SkipTrue: 5},
			bpf.LoadAbsolute{Off: offsetArguments, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: pid, SkipTrue: 1},
			bpf.RetConstant{Val: notPermitted},
			loadCall,
		)
	}
	for _, c := range conditions(pid, alone, signals) {
		mask := c.mask
		if mask == 0 {
			mask = ^mask
		}
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.call, SkipTrue: 5},
			bpf.LoadAbsolute{Off: offsetArguments + 8*c.argument, Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
			bpf.JumpIf{Cond: c.test, Val: c.value, SkipFalse: 1},
			bpf.RetConstant{Val: notPermitted},
			loadCall,
		)
	}
	return append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// hasFilters reports whether system calls can be filtered.
func hasFilters() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}

// loadFilter has all threads of this process filtered. It has no_new_privs.
func loadFilter(alone, signals bool) error {
	raw, err := bpf.Assemble(filter(uint32(os.Getpid()), alone, signals))
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	if id, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	} else if id != 0 {
		return unix.ESRCH // this thread took another filter
	}
	return nil
}
