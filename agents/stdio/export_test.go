package stdio

import (
	"io"
	"time"
)

// PauseFor makes a program be run again after another pause.
func (p *Program) PauseFor(d time.Duration) { p.pause = d }

// MaxAnswer is maxAnswer.
const MaxAnswer = maxAnswer

// MaxLine is maxLine.
const MaxLine = maxLine

// ReadLines is the reading of a program's lines, with nothing that answers its calls.
func ReadLines(in io.Reader, out io.Writer) error {
	return newPeer(out).read(in, maxLine, func(message) {})
}
