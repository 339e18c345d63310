//go:build !race

package sandbox

// DefaultMemory is the default limit for a confined program's allocations, in bytes.
const DefaultMemory = 512 << 20
