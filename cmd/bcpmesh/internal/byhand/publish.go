package byhand

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Publish pushes an answer to a subscription.
type Publish struct {
	client.Flags
	Wait cli.DurationFlag `default:"30s"`
}

func (o *Publish) Run(ctx context.Context, p *cli.Program, args []string) error {
	controller, err := bcp.ParseAgentName(args[0])
	if err != nil {
		return cli.Usagef("publish: %s: %s", cli.Quoted(args[0]), err)
	}
	id, err := bcp.ParseSubscriptionID(args[1])
	if err != nil {
		return cli.Usagef("publish: %s: %s", cli.Quoted(args[1]), err)
	}
	answer, err := p.AnswerArgument(ctx, "publish", args, 2)
	if err != nil {
		return err
	}
	return o.Act(ctx, bcp.RoleReader, o.Wait.Value, func(ctx context.Context, c *client.Client) error {
		if err := checkSubscription(c, controller, id); err != nil {
			return err
		}
		result, err := agents.NewReader(c.Connection).Push(ctx, controller, id, answer, agents.PushOptions{})
		var refused *agents.RefusedError
		if errors.As(err, &refused) && p.Out.JSON {
			err = errors.Join(err, p.Out.Value(bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: id,
				Status: bcp.StatusRefused, Code: refused.Code, Detail: refused.Detail}))
		}
		if err != nil {
			return err
		}
		return p.Out.Show(result, func() { p.Out.Printf("%s: %s\n", result.Status, cli.Plain(result.Detail)) })
	})
}

// checkSubscription names what there is, since the server denies the rest
// without a word.
func checkSubscription(c *client.Client, controller bcp.AgentName, id bcp.SubscriptionID) error {
	channel, err := c.FindChannel(controller, bcp.RoleReader)
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
	f := &cli.Failure{Code: cli.ExitRefused, Message: string(bcp.SubscriptionNotFound) + ": " + string(controller) + " has no subscription " + string(id)}
	if len(names) == 0 {
		return f.WithHint("its definition declares none to %s", c.Name)
	}
	return f.WithHint("there is %s", cli.JoinOr(names)).Near(string(id), names)
}

// pendingQuery is a query that waits for a Reader.
type pendingQuery struct {
	Attempt int `json:"attempt"`
	bcp.Query
}

// Answer answers a query, or lists those that wait.
type Answer struct {
	client.Flags
	Wait                 cli.DurationFlag
	NotEnoughInformation bool
}

func (o *Answer) Run(ctx context.Context, p *cli.Program, args []string) error {
	var id bcp.QueryID
	var answer any = agents.NotEnoughInformation{}
	alone := len(args) == 1 && strings.HasPrefix(args[0], "{") // the JSON, of the one that waits
	if alone {
		args = []string{"", args[0]}
	} else if len(args) > 0 {
		var err error
		if id, err = bcp.ParseQueryID(args[0]); err != nil {
			return cli.Usagef("answer: %s: %s", cli.Quoted(args[0]), err)
		}
	}
	switch {
	case o.NotEnoughInformation && len(args) != 1:
		return cli.Usagef("answer: --not-enough-information replaces the JSON after QUERY_ID").
			WithHint("bcpmesh answer --help shows an example")
	case len(args) > 0 && !o.NotEnoughInformation:
		var err error
		if answer, err = p.AnswerArgument(ctx, "answer", args, 1); err != nil {
			return err
		}
	}
	if alone { // the gateway tells its open queries to a connection that begins
		if err := o.Act(ctx, bcp.RoleReader, 0, func(ctx context.Context, c *client.Client) (err error) {
			id, err = onlyQuery(ctx, agents.NewReader(c.Connection))
			return err
		}); err != nil {
			return err
		}
	}
	return o.Act(ctx, bcp.RoleReader, 0, func(ctx context.Context, c *client.Client) error {
		if len(args) == 0 {
			return listQueries(ctx, p, agents.NewReader(c.Connection), cmp.Or(o.Wait.Value, listWait))
		}
		return answerQuery(ctx, p, agents.NewReader(c.Connection), id, answer, cmp.Or(o.Wait.Value, answerWait))
	})
}

const (
	// listWait is how long a list waits for queries: nothing says which is the last.
	listWait = time.Second
	// answerWait is how long an answer waits for its query, unless it comes earlier.
	answerWait = 10 * time.Second
)

// waitingQueries returns what the gateway sends a Reader that has just connected.
func waitingQueries(ctx context.Context, r *agents.Reader, wait time.Duration) ([]pendingQuery, error) {
	var mu sync.Mutex
	pending := make(map[bcp.QueryID]pendingQuery)
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		pending[q.QueryID] = pendingQuery{Attempt: q.Attempt, Query: q.Query}
		return nil, agents.ErrKeep
	})
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := r.Stop(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(pending), func(a, b pendingQuery) int { return cmp.Compare(a.QueryID, b.QueryID) }), nil
}

// onlyQuery is the one that waits.
func onlyQuery(ctx context.Context, r *agents.Reader) (bcp.QueryID, error) {
	queries, err := waitingQueries(ctx, r, listWait)
	switch {
	case err != nil:
		return "", err
	case len(queries) == 0:
		return "", cli.Failf("no query waits for an answer of this reader")
	case len(queries) > 1:
		return "", cli.Failf("%d queries wait for an answer of this reader", len(queries)).WithHint("bcpmesh answer lists them; put the id of one before the JSON")
	}
	return queries[0].QueryID, nil
}

// listQueries shows them.
func listQueries(ctx context.Context, p *cli.Program, r *agents.Reader, wait time.Duration) error {
	queries, err := waitingQueries(ctx, r, wait)
	if err != nil {
		return err
	}
	return cli.ShowRows(p.Out, queries, "no query waits", []string{"query", "from", "category", "asks"}, func(q *pendingQuery) []string {
		spec, _ := bcp.Encode(q.Spec, bcp.JSON) // it was decoded
		return []string{string(q.QueryID), string(q.Controller), strconv.Itoa(int(q.Category)), AskedFor(spec)}
	})
}

// answerQuery answers one query when it comes and waits for the result.
func answerQuery(ctx context.Context, p *cli.Program, r *agents.Reader, id bcp.QueryID, answer any, wait time.Duration) error {
	sent := make(chan struct{})
	results := make(chan bcp.ValidationResult, 1)
	var came atomic.Bool
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		if q.QueryID != id || came.Swap(true) {
			return nil, agents.ErrKeep
		}
		close(sent)
		return answer, nil
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
		return err
	}
	defer func() { _ = r.Stop(context.WithoutCancel(ctx)) }()
	select {
	case <-sent:
	case <-time.After(wait):
		return cli.Failf("query %s does not wait for an answer of this reader", id).WithHint("bcpmesh answer lists the queries that do")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case result := <-results:
		return showResult(p.Out, result)
	case <-time.After(resultTimeout):
		return cli.Failf("the gateway did not report the outcome of the answer").WithHint("bcpmesh audit shows it")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resultTimeout is how long the gateway may take to judge an answer.
const resultTimeout = 10 * time.Second

// showResult shows what became of an answer.
func showResult(o *cli.Output, r bcp.ValidationResult) error {
	var refused error
	if r.Status == bcp.StatusRefused {
		refused = (&cli.Failure{Code: cli.ExitRefused, Message: string(r.Code) + ": " + r.Detail}).WithHint("%s", meshdir.WhatToDo(r.Code))
	}
	return o.Report(r, refused, func() { o.Printf("%s\n", r.Status) })
}
