package stdio

import "time"

// PauseFor makes a program be run again after another pause.
func (p *Program) PauseFor(d time.Duration) { p.pause = d }

// ReadAnswer is readAnswer.
var ReadAnswer = readAnswer

// MaxAnswer is maxAnswer.
const MaxAnswer = maxAnswer
