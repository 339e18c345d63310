//go:build !race

package process

// SandboxMemory is the default limit for a confined program's allocations, in bytes.
const SandboxMemory = 512 << 20
