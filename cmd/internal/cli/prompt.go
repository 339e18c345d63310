package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Prompter asks the person at the terminal. Questions go to stderr.
type Prompter struct {
	Out   *Output
	lines *lineReader
}

// NewPrompter asks the person at the terminal of p.
func NewPrompter(ctx context.Context, p *Program) *Prompter {
	return &Prompter{Out: p.Out, lines: NewLineReader(Interruptible(ctx, p.In))}
}

// Interactive reports whether there is a person to ask, who sees what is asked.
func (p *Program) Interactive() bool { return IsTerminal(p.In) && p.Out.TalkTerminal }

// Ask asks for one line. The error is io.EOF if there is none.
func (q *Prompter) Ask(question string) (string, error) {
	_, _ = fmt.Fprint(q.Out.Stderr, question) // there is nowhere to report an error of stderr
	line, err := q.lines.Next()
	return strings.TrimSpace(string(line)), err
}

// Confirm asks a question whose answer is no, unless it is yes.
func (q *Prompter) Confirm(question string) (bool, error) {
	answer, err := q.Ask(question + " [y/N] ")
	switch {
	case err == io.EOF:
		q.Out.Talkf("")
		return false, nil
	case err != nil:
		return false, err
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), nil
}
