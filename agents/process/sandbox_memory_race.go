//go:build race

package process

// SandboxMemory is no limit: the race detector allocates many times what the program
// does.
const SandboxMemory = 0
