package llm

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Part is a piece of a prompt: an [Instruction], a [Data] or a [Said].
type Part interface {
	// Text is what the model reads.
	Text() string
	isPart()
}

// Instruction is text that the model is to follow. It comes from the program, its operator, a Controller's spec or the
// gateway; never from a tool, a page or what another agent says. The zero value is empty, and no request holds it.
type Instruction struct{ text string }

// constant is a string that only a constant of the program's source can become: other packages cannot name the type.
type constant string

// Constant returns an instruction of the program.
func Constant(text constant) Instruction { return Instruction{string(text)} }

// FromOperator returns an instruction that an operator wrote: the body of a definition, or a task. Nothing else may be given.
func FromOperator(text string) Instruction { return Instruction{text} }

// FromController returns an instruction that a Controller wrote: the spec of a query, which the gateway has passed on.
// Controllers read nothing hostile, so that a Reader's model may follow what they ask.
func FromController(text string) Instruction { return Instruction{text} }

// FromGateway returns a text of the gateway, such as why an answer was refused.
func FromGateway(text string) Instruction { return Instruction{text} }

// FromProgram returns a text that an agent's program sends to its model, which is the program's to judge: it has no fence, and
// means no more than that the program said so.
func FromProgram(text string) Instruction { return Instruction{text} }

// Failure returns what a tool says of a failure: the constant text of a code, and a number. A word that is no code is
// not shown.
func Failure(code guard.Code, number int) Instruction {
	text := "The call failed."
	if code.Known() {
		text = "The call failed: " + code.Error() + " (" + string(code) + ")."
	}
	if number > 0 {
		text += " It says " + strconv.Itoa(number) + "."
	}
	return Instruction{text}
}

// Text returns the instruction.
func (i Instruction) Text() string { return i.text }

func (Instruction) isPart() {}

// Data is text that the model is to read and not to follow.
type Data struct{ guard.Fenced }

// Text returns the text with its fence.
func (d Data) Text() string { return d.String() }

func (Data) isPart() {}

// Said is something that the model said in an earlier turn.
type Said struct{ text string }

// NewSaid returns what a model said. Providers call it.
func NewSaid(text string) Said { return Said{text} }

// Text returns what was said.
func (s Said) Text() string { return s.text }

func (Said) isPart() {}
