package a2a

import "time"

// PauseFor makes an agent be asked again after another pause.
func PauseFor(a *Agent, pause time.Duration) { a.pause = pause }
