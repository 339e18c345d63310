package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// specFlags write a spec on the command line.
type specFlags struct {
	file                      string
	booleans, enums, integers []string
	questions                 []string
	summary                   string
	maxWords                  numberFlag
}

func (f *specFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "spec", "", "read the whole spec as JSON from `FILE`, or from stdin with -")
	flags.StringArrayVar(&f.booleans, "boolean", nil, "category 1: a field `NAME`")
	flags.StringArrayVar(&f.enums, "enum", nil, "category 1: a field `NAME=VALUE,VALUE,…`")
	flags.StringArrayVar(&f.integers, "integer", nil, "category 1: a field `NAME=MIN..MAX`")
	flags.StringArrayVar(&f.questions, "question", nil, "category 2: a question `ID:FORMAT:WORDS:TEXT`")
	flags.StringVar(&f.summary, "summary", "", "category 3: a summary, by this `DIRECTIVE`; needs --max-words and --because")
	f.maxWords.least = 1
	flags.Var(&f.maxWords, "max-words", "category 3: the summary's limit")
	flags.Lookup("max-words").DefValue = "" // there is none
}

// spec builds the spec. Its form is checked here, its sense by [checkSpec] and
// the gateway.
func (f *specFlags) spec(ctx context.Context, stdin io.Reader) (bcp.Spec, error) {
	fields := len(f.booleans) + len(f.enums) + len(f.integers)
	given := 0
	for _, is := range []bool{f.file != "", fields > 0, len(f.questions) > 0, f.summary != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return bcp.Spec{}, usagef("query: expected one kind of question").
			withHint("fields (--boolean, --enum, --integer), --question, --summary, or --spec")
	}
	if (f.summary == "") != (f.maxWords.value == 0) {
		return bcp.Spec{}, usagef("query: --summary and --max-words go together").
			withHint("for example --summary 'What is the news?' --max-words 60 --because 'It has no short answer.'")
	}
	switch {
	case f.file != "":
		return f.read(ctx, stdin)
	case f.summary != "":
		return bcp.Spec{Category: 3, Directive: f.summary, MaxWords: f.maxWords.value}, nil
	case fields > 0:
		return f.fields()
	}
	spec := bcp.Spec{Category: 2}
	for _, text := range f.questions {
		parts := strings.SplitN(text, ":", 4)
		if len(parts) != 4 {
			return bcp.Spec{}, usagef("query: --question: expected ID:FORMAT:WORDS:TEXT, got %s", quoted(text)).
				withHint("for example --question 'who:person_name:5:Who sent it?'")
		}
		q := bcp.Question{ID: parts[0], Question: parts[3]}
		if err := q.ExpectedFormat.UnmarshalText([]byte(parts[1])); err != nil {
			return bcp.Spec{}, usagef("query: --question: no format %s", quoted(parts[1])).
				withHint("person_name, date, time, email, short_text, short_list, integer or boolean; enum and vocabulary need --spec")
		}
		var err error
		if q.MaxWords, err = strconv.Atoi(parts[2]); err != nil {
			return bcp.Spec{}, usagef("query: --question: expected a number of words, got %s", quoted(parts[2]))
		}
		spec.Questions = append(spec.Questions, q)
	}
	return spec, nil
}

func (f *specFlags) fields() (bcp.Spec, error) {
	spec := bcp.Spec{Category: 1}
	for _, name := range f.booleans {
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeBoolean})
	}
	for _, text := range f.enums {
		name, values, ok := strings.Cut(text, "=")
		if !ok {
			return bcp.Spec{}, usagef("query: --enum: expected NAME=VALUE,VALUE,…, got %s", quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeEnum, Values: strings.Split(values, ",")})
	}
	for _, text := range f.integers {
		name, limits, _ := strings.Cut(text, "=")
		low, high, ok := strings.Cut(limits, "..")
		least, err1 := strconv.ParseInt(low, 10, 64)
		most, err2 := strconv.ParseInt(high, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return bcp.Spec{}, usagef("query: --integer: expected NAME=MIN..MAX, got %s", quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeInteger, Min: &least, Max: &most})
	}
	return spec, nil
}

func (f *specFlags) read(ctx context.Context, stdin io.Reader) (bcp.Spec, error) {
	b, err := readArgument(ctx, f.file, stdin)
	if err != nil {
		return bcp.Spec{}, err
	}
	spec, err := bcp.ParseSpec(b)
	if err != nil {
		return bcp.Spec{}, failf("the spec in %s is not valid: %s", nameOf(f.file), strings.TrimPrefix(err.Error(), "wire: "))
	}
	return spec, nil
}

// readArgument reads a small file, or stdin where the name is -.
func readArgument(ctx context.Context, name string, stdin io.Reader) (b []byte, err error) {
	if name == "-" {
		b, err = io.ReadAll(io.LimitReader(interruptible(ctx, stdin), maxSmallFile+1))
		if err == nil && len(b) > maxSmallFile {
			err = errTooLarge
		}
	} else {
		b, err = readSmall(name)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failf("%s cannot be read: %s", nameOf(name), reasonOf(err))
	}
	return b, nil
}

// nameOf names a file argument that may be stdin.
func nameOf(name string) string {
	if name == "-" {
		return "stdin"
	}
	return quoted(name)
}

// checkSpec says what is wrong with a spec, which the gateway keeps to a word
// of its closed list. Without definitions the gateway alone knows.
func checkSpec(def *bcp.Mesh, channel *bcp.Channel, spec bcp.Spec) error {
	if channel == nil {
		return nil
	}
	if _, err := bcp.Compile(spec, channel.Settings(def, nil, constraint.Compile)); err != nil {
		return (&failure{code: exitRefused, message: string(bcp.InvalidQuery) + ": " + err.Error()}).
			withHint("bcpmesh query --help shows examples")
	}
	return nil
}

func queryCommand(p *program) *cobra.Command {
	var who clientFlags
	var spec specFlags
	var because, requestID string
	var wait durationFlag
	var noWait bool
	cmd := &cobra.Command{
		Use:   "query READER",
		Short: "Ask a reader as a controller, and wait for the answer",
		Long: `Ask a reader a question, as a controller of the mesh, and wait for what the
gateway lets through.

Ask in the lowest category that will do: fields with known values first, short
answers second. A summary is an escalation: it needs a reason in your own words,
and a person's approval.`,
		Example: `  bcpmesh query mail-reader --boolean is_urgent --enum mood=good,bad
  bcpmesh query mail-reader --question 'who:person_name:5:Who sent message 3?'
  bcpmesh query mail-reader --spec spec.json --json`,
		Args:              arguments(1, "READER"),
		ValidArgsFunction: completeAgents(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			reader, err := bcp.ParseAgentName(args[0])
			if err != nil {
				return usagef("query: %s: %s", quoted(args[0]), err)
			}
			if _, err := bcp.ParseClientID(requestID); requestID != "" && err != nil {
				return usagef("query: --request-id: %s", err)
			}
			asked, err := spec.spec(cmd.Context(), p.in)
			if err != nil {
				return err
			}
			options := agents.AskOptions{Justification: because, RequestID: bcp.ClientID(requestID), ReturnHeld: true}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			c, err := who.connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			channel, err := c.channelOf(reader, bcp.RoleController)
			if err != nil {
				return err
			}
			if err := checkSpec(c.definition, channel, asked); err != nil {
				return err
			}
			return query(ctx, p, &who, agents.NewController(c.Connection), reader, asked, options, noWait)
		},
	}
	who.addTo(cmd, "controller")
	spec.addTo(cmd)
	cmd.Flags().StringVar(&because, "because", "", "why an escalation is needed, in your own `WORDS`")
	cmd.Flags().StringVar(&requestID, "request-id", "", "repeat an ask with the same `ID`: it is charged once")
	waitFlag(cmd, &wait, time.Minute, "how long to wait for the answer")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the ask is accepted; the answer comes to the inbox")
	return cmd
}

func query(ctx context.Context, p *program, who *clientFlags, c *agents.Controller, reader bcp.AgentName, spec bcp.Spec, o agents.AskOptions, noWait bool) error {
	if noWait {
		accepted, err := c.Ask(ctx, reader, spec, o)
		if err != nil {
			return withReason(ctx, who, reader, p.out.refused(err))
		}
		if p.out.json {
			return p.out.value(accepted)
		}
		p.out.printf("accepted %s: %s reserved, %s remain\n", accepted.QueryID, bitsOf(accepted.NominalBits), shortBits(accepted.RemainingBits))
		return nil
	}
	if err := c.Start(ctx); err != nil {
		return outcomeOf(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(ctx)) }()
	end := p.whileSilent(ctx, who, reader)
	d, err := c.AskAndWait(ctx, reader, spec, o)
	end()
	var unanswered *agents.UnansweredError
	switch {
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unanswered):
		return withReason(ctx, who, reader, failf("no answer came in time").withHint("the query goes on: its answer will wait in the inbox; --wait gives it more time"))
	case err != nil:
		return withReason(ctx, who, reader, p.out.refused(err))
	}
	return withReason(ctx, who, reader, p.out.delivery(d))
}

// withReason adds to a failure why the reader does not answer, where that may be why.
func withReason(ctx context.Context, who *clientFlags, reader bcp.AgentName, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	code, _, refused := strings.Cut(f.message, ": ")
	if refused && code != string(bcp.Expired) && code != string(bcp.ReaderUnavailable) {
		return err
	}
	if why := whyNobody(ctx, who, reader); why != "" {
		f.hint = strings.TrimPrefix(f.hint+"; "+why, "; ")
	}
	return f
}

// refused reports what the gateway refused, with --json as it said it.
func (o *output) refused(err error) error {
	var refused *agents.RefusedError
	if !errors.As(err, &refused) {
		return outcomeOf(err)
	}
	if o.json {
		if err := o.value(bcp.Refusal{Error: refused.Code, Detail: refused.Detail}); err != nil {
			return err
		}
	}
	if refused.Code == bcp.EscalationRequired {
		return (&failure{code: exitRefused, message: string(refused.Code) + ": " + refused.Detail}).
			withHint("say why, in your own words: --because '…'")
	}
	return outcomeOf(err)
}

// delivery shows what came for a Controller. An outcome that is no answer is a
// refusal.
func (o *output) delivery(d bcp.Delivery) error {
	if o.json {
		if err := o.line(d); err != nil {
			return err
		}
	} else if d.Outcome == "" {
		o.printf("%s\n", plain(string(bytes.TrimSpace(d.Response))))
		o.talkf("from %s, category %d, %s, taint %s", d.FromAgent, d.Category, bitsOf(d.BandwidthBits), d.Taint)
	}
	if d.Outcome == "" {
		return nil
	}
	info := d.Outcome.Info()
	if d.Outcome == bcp.Held {
		return (&failure{code: exitRefused, message: string(d.Outcome) + ": " + info.Text}).
			withHint("bcpmesh status lists what waits; the final outcome comes to the inbox")
	}
	return (&failure{code: exitRefused, message: string(d.Outcome) + ": " + info.Text}).withHint("%s", info.Decision)
}
