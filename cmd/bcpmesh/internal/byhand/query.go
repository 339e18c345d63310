package byhand

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// specFlags write a spec on the command line.
type specFlags struct {
	Boolean, Enum, Integer, Question []string
	Summary                          string
	MaxWords                         cli.NumberFlag `least:"1"`
}

// spec builds the spec, of the flags or of what was given as JSON. Its form is checked here, its sense by [checkSpec] and the
// gateway.
func (f *specFlags) spec(ctx context.Context, stdin io.Reader, given []string) (spec bcp.Spec, err error) {
	kinds := 0
	for _, is := range []bool{len(given) > 0, len(f.Boolean)+len(f.Enum)+len(f.Integer) > 0, len(f.Question) > 0, f.Summary != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return spec, cli.Usagef("query: expected one kind of question").WithHint("fields (--boolean, --enum, --integer), --question, --summary, or SPEC")
	case (f.Summary == "") != (f.MaxWords.Value == 0):
		return spec, cli.Usagef("query: --summary and --max-words must be given together").
			WithHint("for example --summary 'What is the news?' --max-words 60 --because 'It has no short answer.'")
	case f.Summary != "":
		return bcp.Spec{Category: 3, Directive: f.Summary, MaxWords: f.MaxWords.Value}, nil
	case len(f.Question) > 0:
		return parseQuestions(f.Question)
	case len(given) == 0:
		return f.fields()
	}
	text := []byte(given[0])
	if given[0] == "-" {
		if text, err = cli.ReadArgument(ctx, "-", stdin); err != nil {
			return spec, err
		}
	}
	if spec, err = bcp.ParseSpec(text); err != nil {
		err = cli.Failf("the spec is not valid: %s", specReason(err)).WithHint("SPEC is JSON, such as {\"category\":1,\"fields\":[{\"name\":\"urgent\",\"type\":\"boolean\"}]}, or - for stdin; --boolean and --question ask without")
	}
	return spec, err
}

func parseQuestions(texts []string) (bcp.Spec, error) {
	spec := bcp.Spec{Category: 2}
	for _, text := range texts {
		parts := strings.SplitN(text, ":", 4)
		if len(parts) != 4 {
			return spec, cli.Usagef("query: --question: expected ID:FORMAT:WORDS:TEXT, got %s", cli.Quoted(text)).
				WithHint("for example --question 'who:person_name:5:Who sent it?'")
		}
		q := bcp.Question{ID: parts[0], Question: parts[3]}
		if err := q.ExpectedFormat.UnmarshalText([]byte(parts[1])); err != nil {
			return spec, cli.Usagef("query: --question: no format %s", cli.Quoted(parts[1])).
				WithHint("person_name, date, time, email, short_text, short_list, integer or boolean; enum and vocabulary need SPEC")
		}
		var err error
		if q.MaxWords, err = strconv.Atoi(parts[2]); err != nil {
			return spec, cli.Usagef("query: --question: expected a number of words, got %s", cli.Quoted(parts[2]))
		}
		spec.Questions = append(spec.Questions, q)
	}
	return spec, nil
}

func (f *specFlags) fields() (bcp.Spec, error) {
	spec := bcp.Spec{Category: 1}
	for _, name := range f.Boolean {
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeBoolean})
	}
	for _, text := range f.Enum {
		name, values, ok := strings.Cut(text, "=")
		if !ok {
			return spec, cli.Usagef("query: --enum: expected NAME=VALUE,VALUE,…, got %s", cli.Quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeEnum, Values: strings.Split(values, ",")})
	}
	for _, text := range f.Integer {
		name, limits, _ := strings.Cut(text, "=")
		low, high, ok := strings.Cut(limits, "..")
		least, err1 := strconv.ParseInt(low, 10, 64)
		most, err2 := strconv.ParseInt(high, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return spec, cli.Usagef("query: --integer: expected NAME=MIN..MAX, got %s", cli.Quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeInteger, Min: &least, Max: &most})
	}
	return spec, nil
}

// checkSpec says what is wrong with a spec, which the gateway keeps to a word
// of its closed list. Without definitions the gateway alone knows.
func checkSpec(def *bcp.Mesh, channel *bcp.Channel, spec bcp.Spec) error {
	if channel == nil {
		return nil
	}
	if _, err := bcp.Compile(spec, channel.Settings(def, constraint.Compile)); err != nil {
		return (&cli.Failure{Code: cli.ExitRefused, Message: string(bcp.InvalidQuery) + ": " + err.Error()}).
			WithHint("bcpmesh query --help shows examples")
	}
	return nil
}

// Query asks a Reader.
type Query struct {
	client.Flags
	specFlags
	Because, RequestID string
	Wait               cli.DurationFlag `default:"1m"`
	NoWait             bool
}

func (o *Query) Run(ctx context.Context, p *cli.Program, args []string) error {
	reader, err := bcp.ParseAgentName(args[0])
	if err != nil {
		return cli.Usagef("query: %s: %s", cli.Quoted(args[0]), err)
	}
	if _, err := bcp.ParseClientID(o.RequestID); o.RequestID != "" && err != nil {
		return cli.Usagef("query: --request-id: %s", err)
	}
	asked, err := o.spec(ctx, p.In, args[1:])
	if err != nil {
		return err
	}
	options := agents.AskOptions{Justification: o.Because, RequestID: bcp.ClientID(o.RequestID), ReturnHeld: true}
	return o.Act(ctx, bcp.RoleController, o.Wait.Value, func(ctx context.Context, c *client.Client) error {
		channel, err := c.FindChannel(reader, bcp.RoleController)
		if err == nil {
			err = checkSpec(c.Definition, channel, asked)
		}
		if err != nil {
			return err
		}
		return ask(ctx, p, &o.Flags, agents.NewController(c.Connection), reader, asked, options, o.NoWait)
	})
}

func ask(ctx context.Context, p *cli.Program, who *client.Flags, c *agents.Controller, reader bcp.AgentName, spec bcp.Spec, o agents.AskOptions, noWait bool) error {
	if noWait {
		accepted, err := c.Ask(ctx, reader, spec, o)
		if err != nil {
			return withReason(ctx, who, reader, showRefused(p.Out, err))
		}
		return p.Out.Show(accepted, func() {
			p.Out.Printf("accepted %s: %s reserved, %s remain\n", accepted.QueryID, accepted.NominalBits.Words(), accepted.RemainingBits.Rounded())
			if spec.Category == 3 {
				p.Out.Talkf("a person decides whether it may be asked, and then about the summary: bcpmesh approvals")
			}
		})
	}
	arrivals, left := make(chan arrival), make(chan struct{})
	c.OnDelivery(handOver(arrivals, left))
	if err := c.Start(ctx); err != nil {
		return err
	}
	defer func() {
		close(left)
		_ = c.Stop(context.WithoutCancel(ctx)) // what was not shown comes again
	}()
	end := client.WhileSilent(p, ctx, who, reader)
	accepted, err := c.Ask(ctx, reader, spec, o)
	if err != nil {
		end()
		return withReason(ctx, who, reader, showRefused(p.Out, err))
	}
	a, err := answerTo(ctx, accepted.QueryID, arrivals)
	end()
	if err != nil {
		return withReason(ctx, who, reader, showOpen(p.Out, accepted, err))
	}
	if err := showDelivery(p.Out, a.delivery); err != nil {
		a.shown <- agents.ErrKeep // the inbox has it
		return err
	}
	a.shown <- nil
	return withReason(ctx, who, reader, outcomeFailure(a.delivery.Outcome))
}

// answerTo waits for what comes of a query, and leaves other deliveries where they are.
func answerTo(ctx context.Context, id bcp.QueryID, arrivals <-chan arrival) (arrival, error) {
	for {
		select {
		case a := <-arrivals:
			if a.delivery.QueryID == id {
				return a, nil
			}
			a.shown <- agents.ErrKeep
		case <-ctx.Done():
			return arrival{}, ctx.Err()
		}
	}
}

// showOpen says of a query that was accepted, and is charged, that err ended the wait for
// its answer.
func showOpen(o *cli.Output, accepted bcp.Accepted, err error) error {
	f := cli.Failf("no answer to query %s came in time", accepted.QueryID)
	if errors.Is(err, context.Canceled) {
		f = cli.Failf("interrupted, before an answer to query %s came", accepted.QueryID)
	}
	if o.JSON {
		if err := o.Value(accepted); err != nil {
			return err
		}
	}
	return f.WithHint("the query stays open: bcpmesh inbox shows its answer when it comes" + moreTime)
}

// moreTime is no advice where it is known why nothing comes.
const moreTime = "; --wait gives it more time"

// withReason adds to a failure why the reader does not answer, where that may be why.
func withReason(ctx context.Context, who *client.Flags, reader bcp.AgentName, err error) error {
	var f *cli.Failure
	if !errors.As(err, &f) {
		return err
	}
	code, _, refused := strings.Cut(f.Message, ": ")
	if refused && code != string(bcp.Expired) && code != string(bcp.ReaderUnavailable) && code != string(bcp.NotEnoughInformation) {
		return err
	}
	if why := client.WhyNobody(ctx, who, reader); why != "" {
		f.Hint = strings.TrimSuffix(why+"; "+strings.TrimSuffix(f.Hint, moreTime), "; ")
	}
	return f
}

// showRefused reports what the gateway refused, with --json as it said it.
func showRefused(o *cli.Output, err error) error {
	var refused *agents.RefusedError
	if errors.As(err, &refused) && o.JSON {
		if err := o.Value(bcp.Refusal{Error: refused.Code, Detail: refused.Detail}); err != nil {
			return err
		}
	}
	return meshdir.Failure(err)
}

// showDelivery shows what came for a Controller, at once.
func showDelivery(o *cli.Output, d bcp.Delivery) error {
	if o.JSON {
		if err := o.Value(d); err != nil {
			return err
		}
	} else if d.Outcome == "" {
		o.Printf("%s\n", cli.Plain(string(bytes.TrimSpace(d.Response))))
	}
	if err := o.Flush(); err != nil {
		return err
	}
	if !o.JSON && d.Outcome == "" {
		o.Talkf("from %s, category %d, %s, delivered taint %s", d.FromAgent, d.Category, d.BandwidthBits.Words(), d.Taint)
	}
	return nil
}

// outcomeFailure is the refusal that an outcome is, if it is no answer.
func outcomeFailure(outcome bcp.Code) error {
	if outcome == "" {
		return nil
	}
	info := outcome.Info()
	f := &cli.Failure{Code: cli.ExitRefused, Message: string(outcome) + ": " + info.Text}
	if outcome == bcp.Held {
		return f.WithHint("bcpmesh status lists what waits; the final outcome comes to the inbox")
	}
	return f.WithHint("%s", info.Decision)
}

// specReason says what is wrong with a spec, in words of ours.
func specReason(err error) string {
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) {
		return strings.TrimPrefix(err.Error(), "wire: ")
	}
	if errors.Is(err, json.ErrUnknownName) {
		return cli.Plain(string(wrong.JSONPointer)) + ": a spec has no such member"
	}
	return cli.Plain(string(wrong.JSONPointer)) + ": has another type or word than a spec has there"
}

// AskedFor names what a spec asks, in one line.
func AskedFor(spec []byte) string {
	parsed, err := bcp.ParseSpec(spec)
	if err != nil {
		return ""
	}
	parts := cli.Map(parsed.Fields, func(f bcp.Field) string { return f.Name })
	for _, q := range parsed.Questions {
		parts = append(parts, q.Question)
	}
	if parsed.Directive != "" {
		parts = append(parts, parsed.Directive)
	}
	return strings.Join(parts, " ")
}
