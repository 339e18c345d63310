package attach

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func agentShowCommand(p *cli.Program) *cobra.Command {
	var whole bool
	cmd := cli.Command("show FILE", func(_ context.Context, args []string) error {
		r, err := readRecording(args[0])
		if err != nil {
			return err
		}
		return p.Out.Show(r, func() { showRecording(&transcriptPrinter{out: p.Out, whole: whole}, r) })
	})
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.Flags().BoolVar(&whole, "whole", false, "do not cut long texts")
	return cmd
}

const shownLines = 20 // of a text

// transcriptPrinter shows a transcript.
type transcriptPrinter struct {
	out   *cli.Output
	whole bool
}

// say shows a heading of ours, without a word of anybody else's in it that is not quoted.
func (s *transcriptPrinter) say(format string, args ...any) {
	s.out.Printf("%s\n", inert.Line(fmt.Sprintf(format, args...)))
}

// text shows a text.
func (s *transcriptPrinter) text(text string) {
	lines := inert.Prefixed("  "+inert.Gutter, strings.TrimRight(text, "\n"), cli.Columns(s.out.Screen))
	rest := 0
	if !s.whole && len(lines) > shownLines {
		rest = len(lines) - shownLines
		lines = lines[:shownLines]
	}
	for _, line := range lines {
		s.out.Printf("%s\n", line)
	}
	if rest > 0 {
		s.say("  %s more", cli.Count(rest, "line"))
	}
}

func showRecording(s *transcriptPrinter, r *replay.Recording) {
	if r.Configuration != nil {
		s.configuration(r.Configuration)
	}
	for _, c := range r.Conversations {
		s.conversation(r.Configuration, c)
	}
}

func (s *transcriptPrinter) configuration(c *cell.Configuration) {
	s.say("%s (%s), model %s, tools %s", cli.Quoted(string(c.Agent)), c.Role, cli.Quoted(c.Model), cmp.Or(strings.Join(c.Tools, ", "), "none"))
}

func (s *transcriptPrinter) conversation(config *cell.Configuration, c *replay.Conversation) {
	s.say("")
	switch {
	case c.Kind == "":
		s.say("calls of a model only")
	case c.Kind == cell.TaskConversation && config != nil:
		s.say("a task:")
		s.text(config.Task)
	default:
		s.say("conversation %s: a %s:", cli.Quoted(c.ID), c.Kind)
		s.text(string(c.Asked))
	}
	var before *llm.Request
	turn := 0
	for i := range c.Calls {
		l := &c.Calls[i]
		if l.Kind != replay.Model {
			s.call(l)
			continue
		}
		r, err := l.ModelRequest()
		if err != nil { // it was read already
			continue
		}
		turn++
		s.turn(turn, l, r, before)
		before = r
	}
	switch {
	case c.Kind == "":
	case c.End == nil:
		s.say("it is unfinished in the transcript")
	default:
		s.end(c.End)
	}
}

// turn shows a call of a model, with what it was asked since the turn before.
func (s *transcriptPrinter) turn(n int, l *replay.Line, r, before *llm.Request) {
	s.say("turn %d, asked of %s:", n, cli.Quoted(l.Model))
	s.request(r, before)
	s.reply(l)
}

// end shows how a conversation ended.
func (s *transcriptPrinter) end(l *replay.Line) {
	if l.Failure != "" {
		s.say("it failed:")
		s.text(l.Detail)
		return
	}
	s.say("it ended with:")
	s.text(string(l.Response))
}

// call shows what else the cell asked for. What a fetch brought in is in the next turn.
func (s *transcriptPrinter) call(l *replay.Line) {
	s.say("the cell calls %s:", cli.Quoted(l.Kind))
	s.text(string(l.Request))
	switch {
	case l.Failure != "":
		s.say("  it was refused: %s", cli.Quoted(l.Detail))
	case l.Kind == "fetch":
		s.say("  it brought in %s", inert.Length(string(l.Response)))
	default:
		s.say("  it gave:")
		s.text(string(l.Response))
	}
}

// request shows what a request adds to the one before it.
func (s *transcriptPrinter) request(r, before *llm.Request) {
	turns := r.Turns
	if before != nil && len(before.Turns) <= len(turns) && reflect.DeepEqual(before.Turns, turns[:len(before.Turns)]) && reflect.DeepEqual(before.System, r.System) {
		turns = turns[len(before.Turns):]
	} else {
		s.parts("system", r.System)
	}
	if before == nil || !reflect.DeepEqual(before.Tools, r.Tools) {
		names := cli.Map(r.Tools, func(t llm.Tool) string { return t.Name })
		s.say("  tools: %s", cmp.Or(strings.Join(names, ", "), "none"))
	}
	for _, t := range turns {
		if t.Role == llm.Model { // shown as a reply
			continue
		}
		s.parts("told", t.Parts)
		for _, result := range t.Results {
			name := "result"
			if result.Failed {
				name = "failed"
			}
			s.parts(name+" of call "+cli.Quoted(result.Call), result.Parts)
		}
	}
}

func (s *transcriptPrinter) parts(name string, parts []llm.Part) {
	for _, p := range parts {
		if data, fenced := p.(llm.Data); fenced {
			s.say("  %s, untrusted, from %s, %s:", name, data.Source(), inert.Length(data.Body()))
			s.text(data.Body())
			s.say("  end of what is untrusted")
			continue
		}
		s.say("  %s:", name)
		s.text(p.Text())
	}
}

func (s *transcriptPrinter) reply(l *replay.Line) {
	if l.Failure != "" {
		s.say("  the model did not answer: %s", cli.Quoted(l.Failure))
		return
	}
	reply, err := llm.ParseReply(l.Response)
	if err != nil { // it was read already
		return
	}
	for _, said := range reply.Said {
		s.say("  the model says:")
		s.text(said.Text())
	}
	for _, call := range reply.Calls {
		s.say("  the model calls %s (%s):", cli.Quoted(call.Name), cli.Quoted(call.ID))
		s.text(string(call.Arguments))
	}
	u := reply.Usage
	s.say("  %d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output)
}

// readRecording reads a transcript.
func readRecording(path string) (*replay.Recording, error) {
	content, err := cli.ReadFile(path, replay.MaxBytes)
	if err != nil {
		return nil, err
	}
	r, err := replay.Read(content)
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(path), strings.TrimPrefix(err.Error(), "replay: ")).WithHint("bcpmesh agent run NAME --record FILE writes one")
	}
	return r, nil
}
