package main

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// inUnit is a program that filters its system calls as a unit of systemd does, and becomes this program.
const inUnit = "inunit"

func init() {
	programs[inUnit] = func() {
		runtime.LockOSThread()
		fmt.Fprintln(os.Stderr, enterUnit(os.Args[1], os.Args[2:]))
		os.Exit(120)
	}
}

// enterUnit loads a filter from a file, and executes a command.
func enterUnit(file string, command []string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw)/8)
	for i := range filter {
		b := raw[8*i:]
		filter[i] = unix.SockFilter{Code: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:])}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, command, os.Environ())
}

// systemCalls are the numbers of all system calls of this machine, by their names.
func systemCalls(t *testing.T) map[string]uint32 {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix")
	list.Dir = "../.."
	folder := must(list.Output())(t)
	file := must(parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(folder)), "zsysnum_linux_"+runtime.GOARCH+".go"), nil, 0))(t)
	calls := map[string]uint32{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value := constant.MakeFromLiteral(spec.Values[0].(*ast.BasicLit).Value, token.INT, 0)
			number, _ := constant.Int64Val(value)
			calls[strings.ToLower(strings.TrimPrefix(spec.Names[0].Name, "SYS_"))] = uint32(number)
		}
		return true
	})
	return calls
}

// unitLine returns the value of a line of a unit.
func unitLine(t *testing.T, unit, name string) string {
	t.Helper()
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("the unit has no %s", name)
	return ""
}

// unitFilter is what systemd 252 makes of the lines of a unit: system calls that are not listed are refused, or kill the process,
// other namespaces and families of sockets are refused.
func unitFilter(t *testing.T, unit string) []byte {
	t.Helper()
	calls := systemCalls(t)
	set := readFile(t, "testdata/systemd-252.txt")
	_, list, _ := strings.Cut(string(set), "\n") // after the comment
	var allowed []uint32
	for _, name := range slices.Concat(strings.Fields(list), strings.Fields(strings.ReplaceAll(unitLine(t, unit, "SystemCallFilter"), "@system-service", ""))) {
		if number, here := calls[strings.TrimPrefix(name, "_")]; here { // others are of other machines
			allowed = append(allowed, number)
		}
	}
	restricted := unitLine(t, unit, "RestrictNamespaces")
	stopIf(t, restricted != "yes", "the unit allows namespaces: %s", restricted)
	const forbidden = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS
	const number, first = 0, 16 // places in seccomp_data
	returns := func(action uint32) bpf.Instruction { return bpf.RetConstant{Val: action} }
	refused := func(errno unix.Errno) bpf.Instruction { return returns(unix.SECCOMP_RET_ERRNO | uint32(errno)) }
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: calls["clone3"], SkipTrue: 1}, refused(unix.ENOSYS),
	}
	for _, call := range []string{"clone", "unshare"} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: calls[call], SkipTrue: 4}, bpf.LoadAbsolute{Off: first, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: forbidden, SkipTrue: 1}, refused(unix.EPERM), bpf.LoadAbsolute{Off: number, Size: 4})
	}
	families := map[string]uint32{"AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_UNIX": unix.AF_UNIX}
	given := strings.Fields(unitLine(t, unit, "RestrictAddressFamilies"))
	program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: calls["socket"], SkipTrue: uint8(2*len(given) + 2)}, bpf.LoadAbsolute{Off: first, Size: 4})
	for _, name := range given {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: families[name], SkipTrue: 1}, returns(unix.SECCOMP_RET_ALLOW))
	}
	program = append(program, refused(unix.EAFNOSUPPORT))
	for _, call := range allowed {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, returns(unix.SECCOMP_RET_ALLOW))
	}
	last := returns(unix.SECCOMP_RET_KILL_PROCESS)
	if strings.Contains(unit, "\nSystemCallErrorNumber=EPERM\n") {
		last = refused(unix.EPERM)
	}
	raw := must(bpf.Assemble(append(program, last)))(t)
	var filter []byte
	for _, i := range raw {
		filter = binary.NativeEndian.AppendUint16(filter, i.Op)
		filter = append(filter, i.Jt, i.Jf)
		filter = binary.NativeEndian.AppendUint32(filter, i.K)
	}
	return filter
}

// In the unit of the packages, under the oldest systemd that they run under, agents are confined as outside. Under a unit that
// lacks what this needs, the doctor says so.
//
// covers ALF-10
func TestSandboxInTheUnit(t *testing.T) {
	t.Parallel()
	content := readFile(t, "../../.ci/pack/files/bcpmesh.service")
	unit := string(content)
	doctor := func(unit string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "filter")
		noError(t, os.WriteFile(file, unitFilter(t, unit), 0o600))
		cmd := exec.CommandContext(t.Context(), inUnit, file, "bcpmesh", "doctor", "--sandbox", "--json")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			return err.Error()
		}
		return string(out)
	}
	outside, _ := exec.CommandContext(t.Context(), "bcpmesh", "doctor", "--sandbox", "--json").CombinedOutput() // what it finds is compared
	failures := func(s string) string {
		return strconv.Itoa(strings.Count(s, `"status":"ok"`)) + " ok, " + strconv.Itoa(strings.Count(s, `"status":"warn"`)) + " warn, " + strconv.Itoa(strings.Count(s, `"status":"fail"`)) + " fail"
	}
	if got := doctor(unit); failures(got) != failures(string(outside)) || strings.Count(got, `"status":"ok"`) != 1 {
		t.Errorf("%s in the unit, and %s outside:\n%s", failures(got), failures(string(outside)), got)
	}
	killing := strings.Replace(unit, "SystemCallErrorNumber=EPERM\n", "", 1)
	for _, name := range strings.Fields(unitLine(t, unit, "SystemCallFilter"))[1:] {
		got := doctor(strings.Replace(killing, " "+name, "", 1))
		failIf(t, !strings.Contains(got, "is killed: `sandbox: required` starts nothing here"), "without %s:\n%s", name, got)
		got = doctor(strings.Replace(unit, " "+name, "", 1))
		failIf(t, !strings.Contains(got, `"status":"fail"`), "without %s it is refused:\n%s", name, got)
	}
}
