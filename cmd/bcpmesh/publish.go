package main

import (
	"context"
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
	var wait time.Duration
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
			answer, err := answerArgument(p, args, 2)
			if err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), wait)
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
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to try")
	return cmd
}

// checkSubscription names what there is, since the server denies the rest
// without a word.
func checkSubscription(c *client, controller bcp.AgentName, id bcp.SubscriptionID) error {
	if c.definition == nil {
		return nil
	}
	channel, ok := c.definition.Channel(bcp.ChannelKey{Controller: controller, Reader: c.name})
	if !ok {
		return failf("%s has no channel to %s", c.name, controller).withHint("bcpmesh perms --agent %s shows what it may do", c.name)
	}
	var names []string
	for _, s := range channel.Subscriptions {
		if s.ID == id {
			return nil
		}
		names = append(names, string(s.ID))
	}
	if len(names) == 0 {
		return failf("%s has no subscription to %s", controller, c.name)
	}
	return failf("%s has no subscription %s", controller, quoted(string(id))).withHint("there is %s", oneOf(names))
}

// answerArgument reads an answer and checks that it is one JSON object, so that
// a slip of the keyboard is not charged as a refusal.
func answerArgument(p *program, args []string, at int) (jsontext.Value, error) {
	b, err := argumentOrStdin(p, args, at)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(b)
	if !value.IsValid() || value.Kind() != '{' {
		return nil, failf("the answer is not a JSON object: %s", quoted(string(b)))
	}
	return value, nil
}

// pendingQuery is a query that waits for a Reader.
type pendingQuery struct {
	Attempt int `json:"attempt"`
	bcp.Query
}

func answerCommand(p *program) *cobra.Command {
	var who clientFlags
	var wait time.Duration
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
				if !unknown {
					if answer, err = answerArgument(p, args, 1); err != nil {
						return err
					}
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
				return listQueries(ctx, p, reader, wait)
			}
			return answerQuery(ctx, p, reader, id, answer, wait)
		},
	}
	who.addTo(cmd, "reader")
	cmd.Flags().DurationVar(&wait, "wait", time.Second, "how long to wait for queries, and for the result")
	cmd.Flags().BoolVar(&unknown, "not-enough-information", false, "say that there is no answer")
	return cmd
}

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
	results := make(chan bcp.ValidationResult, 1)
	var once sync.Once
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		var mine any
		if q.QueryID == id {
			once.Do(func() { mine = answer })
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
	case result := <-results:
		if p.out.json {
			if err := p.out.value(result); err != nil {
				return err
			}
		}
		if result.Status == bcp.StatusRefused {
			return (&failure{code: exitRefused, message: string(result.Code) + ": " + result.Detail}).withHint("%s", result.Code.Info().Decision)
		}
		if !p.out.json {
			p.out.printf("%s\n", result.Status)
		}
		return nil
	case <-time.After(wait):
		return failf("query %s does not wait for an answer of this reader", id).withHint("bcpmesh answer lists the queries that do")
	case <-ctx.Done():
		return ctx.Err()
	}
}
