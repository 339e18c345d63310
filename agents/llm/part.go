package llm

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Part is a piece of a prompt: an [Instruction], a [Data] or a [Said].
type Part interface {
	// Text returns the text for the model.
	Text() string
	isPart()
}

// Instruction is text that the model should follow. It comes from the program, its
// operator, a Controller's spec or the gateway; never from a tool, a page or another
// agent. The zero value is empty, and no request contains it.
type Instruction struct{ text string }

// constant is a string that can only be made from a constant in source code: other
// packages cannot name the type.
type constant string

// Constant returns an instruction of the program.
func Constant(text constant) Instruction { return Instruction{string(text)} }

// FromOperator returns an instruction that an operator wrote: the body of a definition,
// or a task. Pass nothing else.
func FromOperator(text string) Instruction { return Instruction{text} }

// FromController returns an instruction that a Controller wrote: the spec of a query,
// passed on by the gateway. Controllers read nothing hostile, so a Reader's model may
// follow their requests.
func FromController(text string) Instruction { return Instruction{text} }

// FromGateway returns a text of the gateway, such as why it refused an answer.
func FromGateway(text string) Instruction { return Instruction{text} }

// Failure returns a tool's text for a failure: the constant text of a code, and a number.
// An unknown code is not shown.
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

// Data is text that the model should read but not follow.
type Data struct{ guard.Fenced }

// Text returns the text with its fence.
func (d Data) Text() string { return d.String() }

func (Data) isPart() {}

// Said is text from the model in an earlier turn.
type Said struct{ text string }

// NewSaid returns a model's text. Providers call it.
func NewSaid(text string) Said { return Said{text} }

// Text returns the model's text.
func (s Said) Text() string { return s.text }

func (Said) isPart() {}
