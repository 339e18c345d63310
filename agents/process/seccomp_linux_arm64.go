package process

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedHere are denied system calls that only this architecture has.
var deniedHere []uint32

// forking are the ways to start a process other than clone: none.
var forking []uint32
