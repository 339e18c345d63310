//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// A network namespace is not connected to anything. So its first process, which is not
// confined yet, opens a listener there and passes it to the keeper outside, which accepts
// the connections: nothing in the namespace forwards, and nothing runs besides the
// program.

var (
	localAddress = netip.MustParseAddrPort(Address)
	localPort    = localAddress.Port()
)

// handedOver is the descriptor over which the first process passes the listener.
const handedOver = 3

var errNoListener = errors.New("the program's network was not made")

// ownNetwork starts a process in a new network namespace, as the same user, and with
// the capability to bring the network up.
func ownNetwork() *syscall.SysProcAttr {
	same := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: same(os.Getuid()), GidMappings: same(os.Getgid()),
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
	}
}

// Listen prepares a command of [Spec.Command] with Local. Close theirs once the command
// was started. accept returns the listener at [Address] of its network, or an error once
// the command has ended without one.
func Listen(cmd *exec.Cmd) (theirs *os.File, accept func() (net.Listener, error), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: make a pair of sockets: %w", err)
	}
	ours := os.NewFile(uintptr(pair[0]), "keeper")
	theirs = os.NewFile(uintptr(pair[1]), "program")
	cmd.ExtraFiles = []*os.File{theirs}
	return theirs, func() (net.Listener, error) {
		defer ours.Close()
		return received(pair[0])
	}, nil
}

// received returns the listener from the other end.
func received(from int) (net.Listener, error) {
	var message [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	var controls int
	for {
		_, n, _, _, err := unix.Recvmsg(from, message[:], control, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox: receive the program's network: %w", err)
		}
		controls = n
		break
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil || len(messages) != 1 {
		return nil, errNoListener
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return nil, errNoListener
	}
	file := os.NewFile(uintptr(files[0]), Address)
	defer file.Close() // the listener has its own
	return net.FileListener(file)
}

// handOver brings the network of this process up, and hands a listener in it to the keeper.
func handOver() error {
	defer unix.Close(handedOver)
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(listener, unix.SIOCSIFFLAGS, up); err != nil {
		return err
	}
	if err := unix.Bind(listener, &unix.SockaddrInet4{Port: int(localPort), Addr: localAddress.Addr().As4()}); err != nil {
		return err
	}
	if err := unix.Listen(listener, unix.SOMAXCONN); err != nil {
		return err
	}
	return unix.Sendmsg(handedOver, []byte{0}, unix.UnixRights(listener), nil, 0)
}
