package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedHere are denied system calls that only this architecture has.
var deniedHere []uint32
