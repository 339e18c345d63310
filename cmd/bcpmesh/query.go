package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// specFlags write a spec on the command line.
type specFlags struct {
	file                      string
	booleans, enums, integers []string
	questions                 []string
	summary                   string
	maxWords                  int
}

func (f *specFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "spec", "", "read the whole spec as JSON from `FILE`, or from stdin with -")
	flags.StringArrayVar(&f.booleans, "boolean", nil, "category 1: a field `NAME`")
	flags.StringArrayVar(&f.enums, "enum", nil, "category 1: a field `NAME=VALUE,VALUE,…`")
	flags.StringArrayVar(&f.integers, "integer", nil, "category 1: a field `NAME=MIN..MAX`")
	flags.StringArrayVar(&f.questions, "question", nil, "category 2: a question `ID:FORMAT:WORDS:TEXT`")
	flags.StringVar(&f.summary, "summary", "", "category 3: a summary, by this `DIRECTIVE`; needs --max-words and --because")
	flags.IntVar(&f.maxWords, "max-words", 0, "category 3: the summary's limit")
}

// spec builds the spec. Its form is checked here, its sense by the gateway.
func (f *specFlags) spec(stdin io.Reader) (bcp.Spec, error) {
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
	switch {
	case f.file != "":
		return f.read(stdin)
	case f.summary != "":
		return bcp.Spec{Category: 3, Directive: f.summary, MaxWords: f.maxWords}, nil
	case fields > 0:
		return f.fields()
	}
	spec := bcp.Spec{Category: 2}
	for _, text := range f.questions {
		parts := strings.SplitN(text, ":", 4)
		if len(parts) != 4 {
			return bcp.Spec{}, usagef("--question: expected ID:FORMAT:WORDS:TEXT, got %s", quoted(text)).
				withHint("for example --question 'who:person_name:5:Who sent it?'")
		}
		q := bcp.Question{ID: parts[0], Question: parts[3]}
		if err := q.ExpectedFormat.UnmarshalText([]byte(parts[1])); err != nil {
			return bcp.Spec{}, usagef("--question: no format %s", quoted(parts[1])).withHint("formats: person_name, date, email, short_text, short_list, integer, boolean, time")
		}
		var err error
		if q.MaxWords, err = strconv.Atoi(parts[2]); err != nil {
			return bcp.Spec{}, usagef("--question: expected a number of words, got %s", quoted(parts[2]))
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
			return bcp.Spec{}, usagef("--enum: expected NAME=VALUE,VALUE,…, got %s", quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeEnum, Values: strings.Split(values, ",")})
	}
	for _, text := range f.integers {
		name, limits, _ := strings.Cut(text, "=")
		low, high, ok := strings.Cut(limits, "..")
		least, err1 := strconv.ParseInt(low, 10, 64)
		most, err2 := strconv.ParseInt(high, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return bcp.Spec{}, usagef("--integer: expected NAME=MIN..MAX, got %s", quoted(text))
		}
		spec.Fields = append(spec.Fields, bcp.Field{Name: name, Type: bcp.TypeInteger, Min: &least, Max: &most})
	}
	return spec, nil
}

func (f *specFlags) read(stdin io.Reader) (bcp.Spec, error) {
	b, err := readArgument(f.file, stdin)
	if err != nil {
		return bcp.Spec{}, err
	}
	spec, err := bcp.ParseSpec(b)
	if err != nil {
		return bcp.Spec{}, failf("the spec in %s is not valid: %s", quoted(f.file), err)
	}
	return spec, nil
}

// readArgument reads a small file, or stdin where the name is -.
func readArgument(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		b, err := readSmall(name)
		if err != nil {
			return nil, failf("%s cannot be read: %s", quoted(name), reasonOf(err))
		}
		return b, nil
	}
	b, err := io.ReadAll(io.LimitReader(stdin, maxSmallFile+1))
	if err != nil || len(b) > maxSmallFile {
		return nil, failf("stdin cannot be read, or is larger than %d bytes", maxSmallFile)
	}
	return b, nil
}

func queryCommand(p *program) *cobra.Command {
	var who clientFlags
	var spec specFlags
	var because, requestID string
	var wait time.Duration
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
			asked, err := spec.spec(p.in)
			if err != nil {
				return err
			}
			options := agents.AskOptions{Justification: because, RequestID: bcp.ClientID(requestID), ReturnHeld: true}
			ctx, cancel := withTimeout(cmd.Context(), wait)
			defer cancel()
			c, err := who.connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			return query(ctx, p, agents.NewController(c.Connection), reader, asked, options, noWait)
		},
	}
	who.addTo(cmd, "controller")
	spec.addTo(cmd)
	cmd.Flags().StringVar(&because, "because", "", "why an escalation is needed, in your own `WORDS`")
	cmd.Flags().StringVar(&requestID, "request-id", "", "repeat an ask with the same `ID`: it is charged once")
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for the answer")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the ask is accepted; the answer comes to the inbox")
	return cmd
}

func query(ctx context.Context, p *program, c *agents.Controller, reader bcp.AgentName, spec bcp.Spec, o agents.AskOptions, noWait bool) error {
	if noWait {
		accepted, err := c.Ask(ctx, reader, spec, o)
		if err != nil {
			return outcomeOf(err)
		}
		if p.out.json {
			return p.out.value(accepted)
		}
		p.out.printf("accepted %s: %s bits reserved, %s remain\n", accepted.QueryID, shortBits(accepted.NominalBits), shortBits(accepted.RemainingBits))
		return nil
	}
	if err := c.Start(ctx); err != nil {
		return outcomeOf(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(ctx)) }()
	d, err := c.AskAndWait(ctx, reader, spec, o)
	if err != nil {
		return outcomeOf(err)
	}
	return p.out.delivery(d)
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
		o.talkf("from %s, category %d, %s bits, taint %s", d.FromAgent, d.Category, shortBits(d.BandwidthBits), d.Taint)
	}
	if d.Outcome == "" {
		return nil
	}
	info := d.Outcome.Info()
	return (&failure{code: exitRefused, message: string(d.Outcome) + ": " + info.Text}).withHint("%s", info.Decision)
}

func inboxCommand(p *program) *cobra.Command {
	var who clientFlags
	var follow, keep bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show the deliveries that wait for a controller, and acknowledge them",
		Long: `Show the deliveries that wait for a controller: answers and pushes that the
gateway let through. Each is acknowledged once it is shown, and does not come
again.`,
		Example: `  bcpmesh inbox
  bcpmesh inbox --as main --follow --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep && follow {
				return usagef("inbox: --keep and --follow do not go together")
			}
			ctx := cmd.Context()
			c, err := who.connect(ctx, bcp.RoleController)
			if err != nil {
				return err
			}
			defer c.Close()
			return inbox(ctx, p, agents.NewController(c.Connection), follow, keep, wait)
		},
	}
	who.addTo(cmd, "controller")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	cmd.Flags().BoolVar(&keep, "keep", false, "acknowledge nothing")
	cmd.Flags().DurationVar(&wait, "wait", time.Second, "how long to wait for the next one")
	return cmd
}

var errKept = failf("kept")

func inbox(ctx context.Context, p *program, c *agents.Controller, follow, keep bool, wait time.Duration) error {
	shown := make(chan error)
	seen := make(map[bcp.DeliveryID]bool)
	c.OnDelivery(func(ctx context.Context, d bcp.Delivery) error {
		if seen[d.DeliveryID] {
			return errKept
		}
		seen[d.DeliveryID] = true
		err := p.out.arrived(d)
		select {
		case shown <- err:
		case <-ctx.Done():
		}
		if keep && err == nil {
			return errKept
		}
		return err
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return outcomeOf(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(ctx)) }()
	n := 0
	for {
		patience := time.NewTimer(wait)
		if follow {
			patience.Stop()
		}
		select {
		case err := <-shown:
			patience.Stop()
			if err != nil {
				return err
			}
			n++
		case <-patience.C:
			cancel()
			if n == 0 && !p.out.json {
				p.out.talkf("nothing waits")
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// arrived shows one delivery of an inbox, at once.
func (o *output) arrived(d bcp.Delivery) error {
	if o.json {
		if err := o.line(d); err != nil {
			return err
		}
		return o.stdout.Flush()
	}
	source := "query " + string(d.QueryID)
	if d.SubscriptionID != "" {
		source = "subscription " + string(d.SubscriptionID)
	}
	what := string(d.Outcome)
	if what == "" {
		what = string(d.Response)
	}
	o.printf("%s, %s: %s  (%s bits, taint %s)\n", d.FromAgent, source, plain(what), shortBits(d.BandwidthBits), d.Taint)
	return o.stdout.Flush()
}

// argumentOrStdin is a JSON argument, or stdin where it is - or missing.
func argumentOrStdin(p *program, args []string, at int) ([]byte, error) {
	if len(args) > at && args[at] != "-" {
		return []byte(args[at]), nil
	}
	if f, ok := p.in.(*os.File); ok && isTerminal(f) && len(args) <= at {
		return nil, usagef("expected the answer as JSON").withHint("give it as an argument, or on stdin")
	}
	return readArgument("-", p.in)
}
