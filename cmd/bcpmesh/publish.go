package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func publishCommand(p *program) *cobra.Command {
	var who clientFlags
	var pushID string
	var wait durationFlag
	cmd := &cobra.Command{
		Use:   "publish CONTROLLER SUBSCRIPTION [JSON]",
		Short: "Push an answer against a subscription, as a reader",
		Long: `Push an answer against a subscription that a controller's definition declares,
as a reader of the mesh. The answer is a JSON object, given as an argument or on
stdin. The gateway checks it, charges it, and tells what became of it.`,
		Example: `  bcpmesh publish main research-alerts '{"has_breaking_news":true,"priority":"high"}'
  bcpmesh publish main research-findings - < finding.json`,
		Args:              arguments(2, "CONTROLLER", "SUBSCRIPTION", "JSON"),
		ValidArgsFunction: completeAgents(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			controller, err := bcp.ParseAgentName(args[0])
			if err != nil {
				return usagef("publish: %s: %s", quoted(args[0]), err)
			}
			id, err := bcp.ParseSubscriptionID(args[1])
			if err != nil {
				return usagef("publish: %s: %s", quoted(args[1]), err)
			}
			if _, err := bcp.ParseClientID(pushID); pushID != "" && err != nil {
				return usagef("publish: --push-id: %s", err)
			}
			answer, err := answerArgument(cmd, p, args, 2)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			c, err := who.connect(ctx, bcp.RoleReader)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := checkSubscription(c, controller, id); err != nil {
				return err
			}
			result, err := agents.NewReader(c.Connection).Push(ctx, controller, id, answer, agents.PushOptions{PushID: bcp.ClientID(pushID)})
			var refused *agents.RefusedError
			if errors.As(err, &refused) && p.out.json {
				err = errors.Join(err, p.out.value(bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: id,
					Status: bcp.StatusRefused, Code: refused.Code, Detail: refused.Detail}))
			}
			if err != nil {
				return outcomeOf(err)
			}
			if p.out.json {
				return p.out.value(result)
			}
			p.out.printf("%s: %s\n", result.Status, plain(result.Detail))
			return nil
		},
	}
	who.addTo(cmd, "reader")
	cmd.Flags().StringVar(&pushID, "push-id", "", "repeat a push with the same `ID`: it is charged once")
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

// checkSubscription names what there is, since the server denies the rest
// without a word.
func checkSubscription(c *client, controller bcp.AgentName, id bcp.SubscriptionID) error {
	channel, err := c.channelOf(controller, bcp.RoleReader)
	if err != nil || channel == nil {
		return err
	}
	var names []string
	for _, s := range channel.Subscriptions {
		if s.ID == id {
			return nil
		}
		names = append(names, string(s.ID))
	}
	f := &failure{code: exitRefused, message: string(bcp.SubscriptionNotFound) + ": " + string(controller) + " has no subscription " + string(id)}
	if near := suggestion(string(id), names); near != "" {
		return f.withHint("did you mean %s?", near)
	}
	if len(names) == 0 {
		return f.withHint("its definition declares none to %s", c.name)
	}
	return f.withHint("there is %s", oneOf(names))
}

// answerArgument reads an answer, from an argument, or from stdin where that is
// - or missing. It checks that it is one JSON object, so that a slip of the
// keyboard does not count as a refusal.
func answerArgument(cmd *cobra.Command, p *program, args []string, at int) (jsontext.Value, error) {
	var b []byte
	given := len(args) > at && args[at] != "-"
	if given {
		b = []byte(args[at])
	} else {
		if isTerminal(p.in) && len(args) <= at {
			return nil, usagef("%sexpected the answer as JSON", prefix(cmd)).withHint("give it as an argument, or on stdin")
		}
		var err error
		if b, err = readArgument(cmd.Context(), "-", p.in); err != nil {
			return nil, err
		}
	}
	value, err := jsontext.AppendFormat(nil, b)
	switch {
	case err == nil && jsontext.Value(value).Kind() == '{':
		return value, nil
	case given:
		return nil, usagef("%sthe answer is not a JSON object: %s", prefix(cmd), quoted(string(b)))
	case len(bytes.TrimSpace(b)) == 0:
		return nil, usagef("%sexpected the answer as JSON, and stdin is empty", prefix(cmd)).withHint("%s --help shows an example", cmd.CommandPath())
	}
	return nil, failf("%sthe answer on stdin is not a JSON object: %s", prefix(cmd), quoted(string(b)))
}

// pendingQuery is a query that waits for a Reader.
type pendingQuery struct {
	Attempt int `json:"attempt"`
	bcp.Query
}

func answerCommand(p *program) *cobra.Command {
	var who clientFlags
	var wait durationFlag
	var unknown bool
	cmd := &cobra.Command{
		Use:   "answer [QUERY_ID [JSON]]",
		Short: "List the queries that wait for a reader, or answer one",
		Long: `Without arguments, list the queries that wait for a reader of the mesh. With a
query's id and a JSON object, as an argument or on stdin, answer it, and show
what the gateway made of the answer.`,
		Example: `  bcpmesh answer
  bcpmesh answer qEXAMPLE '{"is_urgent":true}'
  bcpmesh answer qEXAMPLE --not-enough-information`,
		Args: arguments(0, "QUERY_ID", "JSON"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var id bcp.QueryID
			var answer any = agents.NotEnoughInformation{}
			if len(args) > 0 {
				var err error
				if id, err = bcp.ParseQueryID(args[0]); err != nil {
					return usagef("answer: %s: %s", quoted(args[0]), err)
				}
			}
			switch {
			case unknown && len(args) != 1:
				return usagef("answer: --not-enough-information stands in place of the JSON, behind QUERY_ID").
					withHint("bcpmesh answer --help shows an example")
			case len(args) > 0 && !unknown:
				var err error
				if answer, err = answerArgument(cmd, p, args, 1); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			c, err := who.connect(ctx, bcp.RoleReader)
			if err != nil {
				return err
			}
			defer c.Close()
			reader := agents.NewReader(c.Connection)
			if id == "" {
				return listQueries(ctx, p, reader, cmp.Or(wait.value, listWait))
			}
			return answerQuery(ctx, p, reader, id, answer, cmp.Or(wait.value, answerWait))
		},
	}
	who.addTo(cmd, "reader")
	waitFlag(cmd, &wait, 0, "how long to wait for queries (default: 1s to list them, 10s for the one to answer)")
	cmd.Flags().BoolVar(&unknown, "not-enough-information", false, "say that there is no answer")
	return cmd
}

const (
	// listWait is how long a list waits for queries: nothing says which is the last.
	listWait = time.Second
	// answerWait is how long an answer waits for its query, unless it comes earlier.
	answerWait = 10 * time.Second
)

// listQueries shows what the gateway sends a Reader that has just connected.
func listQueries(ctx context.Context, p *program, r *agents.Reader, wait time.Duration) error {
	var mu sync.Mutex
	pending := make(map[bcp.QueryID]pendingQuery)
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		pending[q.QueryID] = pendingQuery{Attempt: q.Attempt, Query: q.Query}
		return nil, errKept
	})
	if err := r.Start(ctx); err != nil {
		return outcomeOf(err)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.Stop(context.WithoutCancel(ctx)); err != nil {
		return outcomeOf(err)
	}
	queries := make([]pendingQuery, 0, len(pending))
	for _, q := range pending {
		queries = append(queries, q)
	}
	sort.Slice(queries, func(i, j int) bool { return queries[i].QueryID < queries[j].QueryID })
	if p.out.json {
		return p.out.value(queries)
	}
	if len(queries) == 0 {
		p.out.talkf("no query waits")
		return nil
	}
	var rows [][]string
	for _, q := range queries {
		spec, err := bcp.Encode(q.Spec, bcp.JSON)
		if err != nil {
			return failf("%s", err)
		}
		rows = append(rows, []string{string(q.QueryID), string(q.Controller), strconv.Itoa(int(q.Category)), askedFor(spec)})
	}
	p.out.table([]string{"query", "from", "category", "asks"}, rows)
	return nil
}

// answerQuery answers one query when it comes and waits for the result.
func answerQuery(ctx context.Context, p *program, r *agents.Reader, id bcp.QueryID, answer any, wait time.Duration) error {
	sent := make(chan struct{})
	results := make(chan bcp.ValidationResult, 1)
	var once sync.Once
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		var mine any
		if q.QueryID == id {
			once.Do(func() {
				mine = answer
				close(sent)
			})
		}
		if mine == nil {
			return nil, errKept
		}
		return mine, nil
	})
	r.OnResult(func(result bcp.ValidationResult) {
		if result.QueryID == id {
			select {
			case results <- result:
			default:
			}
		}
	})
	if err := r.Start(ctx); err != nil {
		return outcomeOf(err)
	}
	defer func() { _ = r.Stop(context.WithoutCancel(ctx)) }()
	select {
	case <-sent:
	case <-time.After(wait):
		return failf("query %s does not wait for an answer of this reader", id).withHint("bcpmesh answer lists the queries that do")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case result := <-results:
		return p.out.result(result)
	case <-time.After(resultTimeout):
		return failf("the gateway did not say what became of the answer").withHint("bcpmesh audit tail shows it")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resultTimeout is how long the gateway may take to judge an answer.
const resultTimeout = 10 * time.Second

// result shows what became of an answer.
func (o *output) result(r bcp.ValidationResult) error {
	if o.json {
		if err := o.value(r); err != nil {
			return err
		}
	}
	if r.Status == bcp.StatusRefused {
		return (&failure{code: exitRefused, message: string(r.Code) + ": " + r.Detail}).withHint("%s", r.Code.Info().Decision)
	}
	if !o.json {
		o.printf("%s\n", r.Status)
	}
	return nil
}
