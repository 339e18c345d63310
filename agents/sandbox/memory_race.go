//go:build race

package sandbox

// DefaultMemory is no limit: the race detector allocates many times what the program
// does.
const DefaultMemory = 0
