package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/approvals"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// demoPerson is the user of the demonstration as its approver.
type demoPerson struct {
	story   *story
	desk    *agents.Approver
	asks    *cli.Prompter
	skipped map[bcp.ItemID]bool
	left    bool // the rest is skipped
}

// person connects the user as an approver of the demonstration's mesh.
func (s *story) person(ctx context.Context, p *cli.Program, m *mesh.Mesh, def *bcp.Mesh) (*demoPerson, func(), error) {
	name := def.Approvers[0]
	creds, err := credentials(m, name, bcp.RoleApprover)
	if err != nil {
		return nil, nil, err
	}
	conn, err := agents.Connect(ctx, m.URL(), creds, agents.Options{Name: name, Logger: hclog.NewNullLogger()})
	if err != nil {
		return nil, nil, cli.Failf("the approver cannot connect: %s", err)
	}
	return &demoPerson{story: s, desk: agents.NewApprover(conn), asks: cli.NewPrompter(ctx, p), skipped: map[bcp.ItemID]bool{}}, conn.Close, nil
}

// decideHeld asks about everything that waits, and tells what comes of it. A
// question that is let through may bring an answer that waits in its turn.
func (d *demoPerson) decideHeld(ctx context.Context) error {
	for !d.left && d.story.waits() > 0 {
		items, err := d.desk.List(ctx)
		if err != nil {
			return approvals.ShowUndecided(d.story.out, err)
		}
		var next bcp.ItemID
		for i := range items {
			if !d.skipped[items[i].ID] {
				next = items[i].ID
				break
			}
		}
		if next == "" {
			return nil
		}
		view, err := d.desk.View(ctx, next)
		if err != nil {
			return approvals.ShowUndecided(d.story.out, err)
		}
		if err := approvals.Intact(&view); err != nil {
			return err
		}
		d.asks.Out.Talkf("")
		approvals.ShowLines(d.asks, approvals.ItemLines(&view, time.Now(), cli.Columns(d.asks.Out.Stderr)))
		decided, err := d.decide(ctx, view)
		switch {
		case err != nil:
			return err
		case !decided:
			d.skipped[next] = true
			continue
		}
		if err := d.story.outcome(ctx, next); err != nil {
			return err
		}
		if err := d.story.tellMore(); err != nil {
			return err
		}
	}
	return nil
}

// decide asks until the user has decided one item, or skips it.
func (d *demoPerson) decide(ctx context.Context, view bcp.ItemView) (decided bool, err error) {
	choices := "a approve, r reject, e edit, s skip, q skip all"
	if view.Kind == bcp.ItemEscalation {
		choices = "a approve, r reject, s skip, q skip all"
	}
	for {
		answer, err := d.asks.Ask(choices + "? ")
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if errors.Is(err, io.EOF) {
			answer = "q"
		}
		err = nil
		switch strings.ToLower(answer) {
		case "a", "approve":
			decided, err = true, d.desk.Approve(ctx, view)
		case "r", "reject":
			decided, err = d.reject(ctx, view)
		case "e", "edit":
			decided, err = d.edit(ctx, view)
		case "s", "skip":
			return false, nil
		case "q":
			d.asks.Out.Talkf("")
			d.left = true
			return false, nil
		default:
			d.asks.Out.Talkf("expected a, r, e, s or q, got %s", cli.Quoted(answer))
		}
		var refused *agents.RefusedError
		switch {
		case errors.As(err, &refused):
			d.asks.Out.Talkf("%s: %s", refused.Code, refused.Detail)
		case err != nil || decided:
			return decided, err
		}
	}
}

func (d *demoPerson) reject(ctx context.Context, view bcp.ItemView) (bool, error) {
	reason, err := d.asks.Ask("Why? " + approvals.WhoHears(&view) + " ")
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if wrong := approvals.CheckReason(reason); wrong != nil {
		d.asks.Out.Talkf("%s", wrong.Message)
		return false, nil
	}
	return true, d.desk.Reject(ctx, view, reason)
}

func (d *demoPerson) edit(ctx context.Context, view bcp.ItemView) (bool, error) {
	if view.Kind == bcp.ItemEscalation {
		d.asks.Out.Talkf("this is a question that waits to be asked: approve or reject it")
		return false, nil
	}
	question := "The new summary, in one line: "
	if view.Category != 3 {
		question = "The new answer, as JSON in one line: "
	}
	line, err := d.asks.Ask(question)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	var response any = map[string]string{tell.SummaryName: line}
	if view.Category != 3 {
		value := jsontext.Value(line)
		if !value.IsValid() || value.Kind() != '{' {
			d.asks.Out.Talkf("not a JSON object: %s", cli.Quoted(line))
			return false, nil
		}
		response = value
	}
	preview, err := d.desk.Preview(ctx, view, response)
	if err != nil {
		return false, err
	}
	if err := approvals.Matches(view.ID, preview.Content, preview.SHA256); err != nil {
		return false, err
	}
	approvals.ShowLines(d.asks, approvals.PreviewLines(&view, preview, cli.Columns(d.asks.Out.Stderr)))
	if ok, err := d.asks.Confirm("Release this to " + string(view.Controller) + " in its place?"); err != nil || !ok {
		return false, err
	}
	return true, d.desk.Edit(ctx, view, preview)
}

// outcome waits until a decision about an item is recorded and everything that
// it set going has come to rest.
func (s *story) outcome(ctx context.Context, item bcp.ItemID) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		recorded, changed := s.decisions[item], s.changed
		s.mu.Unlock()
		if recorded {
			return s.waitSettled(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("a decision was not recorded: %w", ctx.Err())
		}
	}
}
