package audit

import (
	"context"
	"errors"
	"io"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// answerer has the person at the terminal answer what a run asks.
type answerer struct {
	settled bcp.ItemID // of which no more can be said here
}

// look answers the question of an open run, if it has one.
func (a *answerer) look(ctx context.Context, p *cli.Program, run *agents.Run, r bcp.RunReceipt) error {
	if r.QuestionID == "" || r.QuestionID == a.settled {
		return nil
	}
	if !p.Interactive() {
		a.settled = r.QuestionID
		p.Out.Talkf("run %s asks you something, and there is no terminal: an approver may answer with bcpmesh approvals", r.RunID)
		return nil
	}
	answers := map[string]string{}
	prompt := cli.NewPrompter(ctx, p)
	for _, q := range r.Questions {
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
	case kernel.Code(refused.Code) == kernel.BadOutcome:
		a.settled = ""
		p.Out.Talkf("%s", kernel.ExplainRefusal(kernel.BadOutcome))
		return nil
	default:
		return err
	}
}
