package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
)

// askTime bounds one question.
const askTime = time.Minute

// takes reports whether a plain Controller uses a format under a category: under 1 what is typed, under 2 also free text,
// under 3 what is typed, and text that a person has read.
func (f *format) takes(category int) bool {
	if f.Sealed {
		return false
	}
	switch f.Spec.Category {
	case 1:
		return true
	case 2:
		return category == 2 || category == 3 && !f.Text
	default:
		return category == 3
	}
}

// plainly has a task done by a Controller without a kernel: the Reader has the tools that read, the Controller those with
// effects, and what it has to know for them, and for the user, it asks. If it heard what is critical in a call, it asks the
// person, too.
func (st *stage) plainly(ctx context.Context, p play, category int) (_ play, err error) {
	s := st.suite
	defer func() { err = errors.Join(err, st.plain[category].CloseSession(ctx)) }() // a task is a session
	st.begin(p)
	read := false
	for i := range p.user.Calls {
		c := &p.user.Calls[i]
		if !s.effect(c.Tool) {
			st.mu.Lock()
			st.now.Did(score.Call{Tool: c.Tool, Args: s.argValues(st.now.State, c.Args)}) // the Reader reads
			st.mu.Unlock()
			read = true
			continue
		}
		args, heard := map[string]jsontext.Value{}, false
		for _, name := range sortedKeys(c.Args) {
			arg := c.Args[name]
			if !read || s.known(c.Tool, name, arg, p.user.Text) {
				args[name] = arg.Value
				continue
			}
			critical := slices.Contains(s.tool(c.Tool).Critical, name)
			heard = heard || critical
			value, failed, err := st.askValue(ctx, category, name, arg.Value, critical)
			if err != nil {
				return play{}, err
			}
			if failed != "" {
				return st.failed(fmt.Sprintf("`%s` of `%s`: %s", name, c.Tool, failed)), nil
			}
			args[name] = value
		}
		if !st.allowed(score.Call{Tool: c.Tool, Args: args}, heard) {
			return st.failed("the person said no"), nil
		}
		read = read || s.tool(c.Tool).Level == "read"
	}
	if p.user.Output != "" {
		heard, failed, err := st.askValue(ctx, category, "", s.outputParts(p.user.Output), false)
		if err != nil {
			return play{}, err
		}
		if failed != "" {
			return st.failed("what the user wants to know: " + failed), nil
		}
		st.mu.Lock()
		st.now.Answer = strings.Join(scalarTexts(heard), ", ")
		st.mu.Unlock()
	}
	return st.end(), nil
}

// allowed makes a call, or has the person say no.
func (st *stage) allowed(c score.Call, ask bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if ask && !st.now.person.allows(st.suite.belongsTo(st.now.user, &c)) {
		st.now.Refused++
		return false
	}
	if ask {
		st.now.Approved++
	}
	st.now.Did(c)
	return true
}

func (st *stage) failed(why string) play {
	out := st.end()
	out.Failed = why
	return out
}

// askValue asks for a value, or for each element of a list.
func (st *stage) askValue(ctx context.Context, category int, name string, value jsontext.Value, exact bool) (_ jsontext.Value, failed string, err error) {
	if value.Kind() != '[' {
		return st.learnOne(ctx, category, name, value, exact)
	}
	var list []jsontext.Value
	for _, e := range listElements(value) {
		one, failed, err := st.learnOne(ctx, category, name, e, exact)
		if err != nil || failed != "" {
			return nil, failed, err
		}
		list = append(list, one)
	}
	inJSON, err := json.Marshal(list)
	return inJSON, "", err
}

func (st *stage) learnOne(ctx context.Context, category int, name string, value jsontext.Value, exact bool) (_ jsontext.Value, failed string, err error) {
	f := st.suite.formatFor(value, exact, func(f *format) bool { return f.takes(category) })
	if f == nil {
		if category == 1 {
			return nil, "a text", nil
		}
		return nil, describe(value), nil
	}
	a := &ask{Argument: name, Values: []jsontext.Value{value}, Format: f}
	st.mu.Lock()
	st.now.asks = a
	st.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	d, err := await(ctx, st, func() (bcp.Delivery, error) {
		return st.plain[category].AskAndWait(ctx, readerName, f.Spec, agents.AskOptions{Justification: "The task needs a text."})
	})
	if err != nil {
		return nil, "", err
	}
	if d.Response == nil {
		return nil, "the person said no, or the gateway did (" + string(d.Outcome) + ")", nil
	}
	heard := f.hear(readArgs(d.Response))
	if value.Kind() == '"' && heard.Kind() == '0' {
		heard = quote(string(heard)) // an id that is a number
	}
	return heard, "", nil
}
