//go:build !race

package sandbox

// DefaultMemory is what a confined program may allocate if nobody says otherwise, in bytes.
const DefaultMemory = 512 << 20
