package synadia

import "time"

// Hurry makes an agent be prompted again at once, and found silent after a time.
func Hurry(a *Agent, silent time.Duration) { a.pause, a.silence = time.Millisecond, silent }

// ReadChunk is for fuzzing.
var ReadChunk = readChunk
