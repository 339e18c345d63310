package audit

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// answerer answers what a run asks: with what was given beforehand, then with what the
// person at the terminal says.
type answerer struct {
	given   map[string]string
	settled bcp.ItemID // of which no more can be said here
}

// parseAnswers reads ID=VALUE.
func parseAnswers(list []string) (map[string]string, error) {
	given := map[string]string{}
	for _, one := range list {
		id, value, ok := strings.Cut(one, "=")
		if !ok || id == "" || value == "" {
			return nil, cli.Usagef("kernel run: --answer %s: expected ID=VALUE", cli.Quoted(one)).WithHint("such as --answer day=monday")
		}
		given[id] = value
	}
	return given, nil
}

// look answers the question of an open run, if it has one.
func (a *answerer) look(ctx context.Context, p *cli.Program, run *agents.Run, r bcp.RunReceipt) error {
	if r.QuestionID == "" || r.QuestionID == a.settled {
		return nil
	}
	answers, open := map[string]string{}, []bcp.Question{}
	for _, q := range r.Questions {
		if value, given := a.given[q.ID]; given {
			answers[q.ID] = value
		} else {
			open = append(open, q)
		}
	}
	if len(open) > 0 && !p.Interactive() {
		return cli.Failf("run %s asks %s: %s", r.RunID, cli.Plain(open[0].ID), cli.Plain(tell.QuestionText(&open[0]))).
			WithHint("answer with the same --request-id and --answer ID=VALUE, or as an approver with bcpmesh approvals")
	}
	prompt := cli.NewPrompter(ctx, p)
	for _, q := range open {
		answer, err := prompt.Ask(cli.Plain(tell.QuestionText(&q)) + ": ")
		if err != nil && err != io.EOF {
			return err
		}
		if answer == "" {
			if refuse, err := prompt.Confirm("Refuse to answer, which ends the run?"); err != nil || !refuse {
				return err // it is asked again
			}
			return a.sent(p, r.QuestionID, run.Answer(ctx, r.QuestionID, nil, true))
		}
		answers[q.ID] = answer
	}
	return a.sent(p, r.QuestionID, run.Answer(ctx, r.QuestionID, answers, true)) // what a screen showed taints nobody
}

// sent says what became of an answer.
func (a *answerer) sent(p *cli.Program, id bcp.ItemID, err error) error {
	a.settled = id
	refused, ok := errors.AsType[*agents.RunRefusedError](err)
	switch {
	case !ok:
		return err
	case kernel.Code(refused.Code) == kernel.UnknownItem: // answered before, by a person or a message whose reply was lost
		return nil
	case kernel.Code(refused.Code) == kernel.BadOutcome && p.Interactive():
		a.settled, a.given = "", nil
		p.Out.Talkf("%s", kernel.ExplainRefusal(kernel.BadOutcome))
		return nil
	default:
		return err
	}
}
