package bridges

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/a2a"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ReaderA2A answers queries by asking an agent that speaks A2A.
type ReaderA2A struct {
	client.Serving
	Agent, Card, TokenFile string
	Answer                 []string
	Timeout                cli.DurationFlag `default:"2m" least:"1s"`
	Parallel               int              `default:"4"`
}

// Run answers until interrupted, or shows the card of the agent.
func (o *ReaderA2A) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if o.Agent == "" {
		return cli.Usagef("a2a reader: expected --agent URL").WithHint("for example bcpmesh a2a reader --agent https://agent.example.com")
	}
	if o.Parallel < 1 || o.Parallel > client.MaxParallel {
		return cli.Usagef("a2a reader: --parallel: expected 1 to %d, got %d", client.MaxParallel, o.Parallel)
	}
	if o.Card == "" {
		return o.lookAtCard(ctx, p)
	}
	if o.FromEnvironment(p.Env, bcp.RoleReader); o.Creds == "" {
		return cli.Usagef("a2a reader: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
	}
	return o.answer(ctx, p)
}

// lookAtCard shows the card of an agent, for a person who decides whether to pin it.
func (o *ReaderA2A) lookAtCard(ctx context.Context, p *cli.Program) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout.Value)
	defer cancel()
	card, err := a2a.Look(ctx, o.Agent)
	if err != nil {
		return a2aFailure(o.Agent, err)
	}
	sum := hex.EncodeToString(card.SHA256[:])
	if p.Out.JSON {
		return p.Out.Value(struct {
			SHA256      string   `json:"card_sha256"`
			Name        string   `json:"name"`
			Version     string   `json:"version"`
			Description string   `json:"description"`
			Skills      []string `json:"skills"`
			Interfaces  []string `json:"interfaces"`
		}{sum, card.Name, card.Version, card.Description, card.Skills, card.Interfaces})
	}
	p.Out.Printf("What the agent at %s says of itself, not to be trusted:\n\n", cli.Quoted(o.Agent))
	for _, row := range [][2]string{{"name", card.Name}, {"version", card.Version}, {"description", card.Description}} {
		p.Out.Printf("  %-12s %s\n", row[0], cli.Plain(row[1]))
	}
	for _, s := range card.Skills {
		p.Out.Printf("  %-12s %s\n", "skill", cli.Plain(s))
	}
	for _, i := range card.Interfaces {
		p.Out.Printf("  %-12s %s\n", "interface", cli.Plain(i))
	}
	p.Out.Printf("\nTo pin this card and answer with the agent, add:\n  --card %s\n", sum)
	return nil
}

// answer answers queries until interrupted, or until the agent's card changes.
func (o *ReaderA2A) answer(ctx context.Context, p *cli.Program) error {
	sum, err := hex.DecodeString(o.Card)
	if err != nil || len(sum) != sha256.Size {
		return cli.Usagef("a2a reader: --card: expected 64 hex digits").WithHint("without --card the command shows them")
	}
	token, err := readBearerToken(o.TokenFile)
	if err != nil {
		return err
	}
	var answers map[string]string
	for _, text := range o.Answer {
		name, expression, ok := strings.Cut(text, "=")
		if !ok || name == "" || answers[name] != "" {
			return cli.Usagef("a2a reader: --answer: expected NAME=EXPRESSION, each name once, got %s", cli.Quoted(text)).WithHint(`for example --answer 'greets=result.text.contains("Hello")'`)
		}
		if answers == nil {
			answers = map[string]string{}
		}
		answers[name] = expression
	}
	config := a2a.Config{URL: o.Agent, Card: [sha256.Size]byte(sum), Token: token, Answers: answers, Timeout: o.Timeout.Value}
	if _, err := a2a.New(config); err != nil && !errors.Is(err, a2a.ErrURL) {
		return cli.Usagef("a2a reader: --answer: %s", strings.TrimPrefix(err.Error(), "a2a: "))
	}
	agent, err := o.Serve(ctx, p, "reader", o.Parallel)
	if err != nil {
		return err
	}
	defer agent.Close()
	if agent.Role != bcp.RoleReader {
		return cli.Failf("%s belongs to %s, %s: expected the creds of a reader", cli.Quoted(o.Creds), agent.Name, agent.Role)
	}
	config.Logger = agent.Log
	asked, err := a2a.New(config)
	if err == nil {
		err = asked.Check(ctx)
	}
	if err != nil {
		return a2aFailure(o.Agent, err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	reader := agents.NewReader(agent.Connection)
	reader.OnQuery(func(ctx context.Context, q agents.Query) (any, error) {
		answer, err := asked.Answer(ctx, q)
		if errors.Is(err, a2a.ErrCard) {
			end(err)
		}
		return answer, err
	})
	if err := reader.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return meshdir.Failure(err)
	}
	p.Out.Talkf("%s answers with the agent at %s", agent.Name, cli.Quoted(o.Agent))
	<-ctx.Done()
	_ = reader.Stop(context.WithoutCancel(ctx))
	if err := context.Cause(ctx); errors.Is(err, a2a.ErrCard) {
		return a2aFailure(o.Agent, err)
	}
	return nil
}

// readBearerToken reads a bearer token, which is what a header can have.
func readBearerToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := cli.ReadSmall(file)
	if err != nil {
		return "", cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 || bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", cli.Failf("%s: expected a token of visible ASCII characters", cli.Quoted(file))
	}
	return string(b), nil
}

func a2aFailure(agent string, err error) error {
	var failed *stdio.RunError
	switch {
	case errors.Is(err, a2a.ErrURL):
		return cli.Usagef("a2a reader: --agent: expected the agent's origin, got %s", cli.Quoted(agent)).WithHint("https://HOST, or http for an agent on this machine")
	case errors.Is(err, a2a.ErrCard):
		return cli.Failf("the card of the agent at %s differs from the pinned one", cli.Quoted(agent)).WithHint("look at the new one without --card, and pin it if you trust it")
	case errors.As(err, &failed):
		return cli.Failf("the agent at %s cannot be asked: %s", cli.Quoted(agent), failed.Reason)
	default:
		return fmt.Errorf("a2a reader: %w", err)
	}
}
