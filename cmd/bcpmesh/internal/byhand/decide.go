package byhand

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// decision is what the commands tell of a decision.
type decision struct {
	Item       bcp.ItemID    `json:"item_id"`
	Act        bcp.Act       `json:"decision"`
	Controller bcp.AgentName `json:"controller"`
	Reader     bcp.AgentName `json:"reader"`
	SHA256     bcp.Digest    `json:"sha256"`         // of what was signed
	Error      bcp.Code      `json:"error,omitzero"` // it does not count
}

// batch is what a person decides with one signature.
type batch struct {
	views []bcp.ItemView
	out   []decision // what is left out, and why
	alone bool       // one item was named
}

// batch fetches items. Of several those are left out which do not wait any more, or have
// other bytes than the person means.
func (f *approverFlags) batch(ctx context.Context, p *cli.Program, a *agents.Approver, ids []bcp.ItemID, meant digests) (*batch, error) {
	b := &batch{alone: len(ids) == 1}
	for i, id := range ids {
		view, err := f.view(ctx, a, id)
		if err == nil {
			err = meant.bind(i, id, view.SHA256)
		}
		switch {
		case err == nil:
			b.views = append(b.views, view)
		case b.alone || !errors.As(err, new(*agents.RefusedError)):
			return nil, err
		default:
			b.leave(p.Out, decision{Item: id}, err)
		}
	}
	return b, nil
}

// leave notes that an item is left out.
func (b *batch) leave(o *cli.Output, d decision, err error) {
	d.Error = bcp.Unavailable
	if refused := new(agents.RefusedError); errors.As(err, &refused) {
		d.Error = refused.Code
	}
	if !o.JSON {
		o.Printf("left out %s: %s\n", d.Item, strings.TrimPrefix(whyLeft(err), "refused: "))
	}
	b.out = append(b.out, d)
}

// whyLeft says in one line why an item could not be decided.
func whyLeft(err error) string {
	var f *cli.Failure
	if errors.As(err, &f) {
		return f.Message
	}
	var unanswered *agents.UnansweredError
	if errors.As(err, &unanswered) {
		return "the mesh does not answer"
	}
	return strings.TrimPrefix(err.Error(), "agents: ")
}

// decide signs a decision about the items, and says what follows.
func (f *approverFlags) decide(ctx context.Context, p *cli.Program, a *agents.Approver, act bcp.Act, b *batch, reason string) error {
	var left []error
	if len(b.views) > 0 {
		var err error
		left, err = within(ctx, f.Wait, func(ctx context.Context) ([]error, error) { return a.Together(ctx, act, b.views, reason) })
		if err == nil && b.alone {
			err = left[0]
		}
		if err != nil {
			return err
		}
	}
	var counted []decision
	for i := range b.views {
		v := &b.views[i]
		d := decision{Item: v.ID, Act: act, Controller: v.Controller, Reader: v.Reader, SHA256: v.SHA256}
		if act == bcp.RejectItem {
			d.SHA256 = sha256.Sum256([]byte(reason))
		}
		switch {
		case left[i] != nil:
			b.leave(p.Out, d, left[i])
		case b.alone:
			return showDecided(p.Out, v, act, d.SHA256)
		case p.Out.JSON:
			counted = append(counted, d)
		default:
			_ = showDecided(p.Out, v, act, d.SHA256) // only JSON can fail
		}
	}
	if p.Out.JSON {
		if err := p.Out.Value(append(counted, b.out...)); err != nil {
			return err
		}
	}
	if len(b.out) > 0 {
		return (&cli.Failure{Code: cli.ExitRefused, Message: fmt.Sprintf("%d of %d items were left out", len(b.out), len(left)+len(b.out))}).
			WithHint("bcpmesh approvals shows what still waits")
	}
	return nil
}

// showDecided says what follows from a decision.
func showDecided(o *cli.Output, view *bcp.ItemView, act bcp.Act, digest bcp.Digest) error {
	return o.Show(decision{Item: view.ID, Act: act, Controller: view.Controller, Reader: view.Reader, SHA256: digest}, func() { o.Printf("%s %s: %s\n", tell.Decided(act), view.ID, cli.Plain(tell.Consequence(view, act))) })
}

// whoHears says who is told the reason of a rejection.
func whoHears(view *bcp.ItemView) string {
	if view.Kind == bcp.ItemEscalation || view.Kind == bcp.ItemProposal || view.Kind == bcp.ItemHanded || view.Effect != nil {
		return "The audit keeps it; no agent sees it."
	}
	return string(view.Reader) + " hears it, " + string(view.Controller) + " does not."
}

// digests are the SHA-256 of each item that a person means, one more with each --sha256.
type digests []bcp.Digest

// String returns nothing: there is no default.
func (f *digests) String() string { return "" }

// Type names the flag's values in the help.
func (f *digests) Type() string { return "HEX" }

// Set takes one more.
func (f *digests) Set(s string) error {
	var d bcp.Digest
	if d.UnmarshalText([]byte(s)) != nil || d == (bcp.Digest{}) {
		return errors.New("expected 64 hexadecimal digits")
	}
	*f = append(*f, d)
	return nil
}

// bind fails for other bytes than the person means by the nth item.
func (f digests) bind(n int, id bcp.ItemID, actual bcp.Digest) error {
	if len(f) == 0 || f[n] == actual {
		return nil
	}
	return &agents.RefusedError{Code: bcp.DigestMismatch, Detail: "the sha256 of " + string(id) + " is " + digestText(actual)}
}

var errUndecided = cli.Failf("nothing was decided").WithHint("the item waits until its deadline")

// confirmed asks a person, and fails if they do not say yes.
func confirmed(q *cli.Prompter, question string) error {
	ok, err := q.Confirm(question)
	if err == nil && !ok {
		err = errUndecided
	}
	return err
}

// itemsOf reads the ids of the items to decide about, and says whether --sha256 is of none of them or of each.
func itemsOf(act bcp.Act, args []string, meant digests) ([]bcp.ItemID, error) {
	ids, err := itemArguments("approvals "+string(act), args)
	if err == nil && len(meant) > 0 && len(meant) != len(ids) {
		err = cli.Usagef("approvals %s: expected --sha256 once for each ITEM, in their order", act)
	}
	return ids, err
}

// together decides about items in one way. ask asks the person first, unless it is nil.
func (f *approverFlags) together(ctx context.Context, p *cli.Program, ids []bcp.ItemID, act bcp.Act, meant digests, reason *string,
	ask func(views []bcp.ItemView) error) error {
	return f.as(ctx, p, func(approver *agents.Approver) error {
		b, err := f.batch(ctx, p, approver, ids, meant)
		if err == nil && act == bcp.Approve {
			err = approvable(b.views)
		}
		if err == nil && ask != nil && len(b.views) > 0 {
			err = ask(b.views)
		}
		if err != nil {
			return err
		}
		return f.decide(ctx, p, approver, act, b, *reason)
	})
}

// approving approves items.
type approving struct {
	approverFlags
	SHA256 digests
	Yes    bool `short:"y"`
}

func (f *approving) Run(ctx context.Context, p *cli.Program, args []string) error {
	ids, err := itemsOf(bcp.Approve, args, f.SHA256)
	if err != nil {
		return err
	}
	var ask func([]bcp.ItemView) error
	switch {
	case f.Yes:
	case p.Interactive():
		ask = func(views []bcp.ItemView) error { return confirmed(showAll(ctx, p, views), approveQuestion(views)+"?") }
	case len(f.SHA256) == 0:
		return cli.Usagef("approvals approve: expected --sha256, or --yes for what you have not seen").
			WithHint("bcpmesh approvals %s shows the item and its sha256", ids[0])
	}
	return f.together(ctx, p, ids, bcp.Approve, f.SHA256, new(string), ask)
}

// approvable fails for an item that has to be answered.
func approvable(views []bcp.ItemView) error {
	for i := range views {
		if views[i].Kind == bcp.ItemQuestion {
			return cli.Failf("%s: %s", views[i].ID, tell.NotApproved)
		}
	}
	return nil
}

// approveQuestion asks whether to approve some items.
func approveQuestion(views []bcp.ItemView) string {
	if len(views) > 1 {
		return fmt.Sprintf("Approve all %d", len(views))
	}
	return tell.Question(&views[0])
}

// showAll shows items to the person who is asked next.
func showAll(ctx context.Context, p *cli.Program, views []bcp.ItemView) *cli.Prompter {
	q := cli.NewPrompter(ctx, p)
	for i := range views {
		showLines(q, itemLines(&views[i], time.Now(), cli.Columns(p.Out.Stderr)))
	}
	return q
}

// checkReason says what is wrong with a reason, which the gateway keeps to a word.
func checkReason(reason string) *cli.Failure {
	switch {
	case strings.TrimSpace(reason) == "":
		return cli.Usagef("a rejection has a reason").WithHint("say in one line what is wrong: the reader sees it, the controller does not")
	case utf8.RuneCountInString(reason) > bcp.MaxReasonChars:
		return cli.Usagef("the reason has %d characters, and may have %d", utf8.RuneCountInString(reason), bcp.MaxReasonChars)
	case reason != cli.Plain(reason):
		return cli.Usagef("the reason has characters that do not show: %s", cli.Quoted(reason)).WithHint("write it in one line of plain text")
	}
	return nil
}

// rejecting rejects items.
type rejecting struct {
	approverFlags
	Reason  string
	Command *cobra.Command
}

func (f *rejecting) Run(ctx context.Context, p *cli.Program, args []string) error {
	ids, err := itemsOf(bcp.RejectItem, args, nil)
	if err != nil {
		return err
	}
	if f.Command.Flags().Changed("reason") {
		if wrong := checkReason(f.Reason); wrong != nil {
			return wrong
		}
		return f.together(ctx, p, ids, bcp.RejectItem, nil, &f.Reason, nil)
	}
	if !p.Interactive() {
		return cli.Usagef("approvals reject: expected --reason").WithHint("bcpmesh approvals reject --help shows an example")
	}
	return f.together(ctx, p, ids, bcp.RejectItem, nil, &f.Reason, func(views []bcp.ItemView) (err error) {
		question := "Why do you reject it? " + whoHears(&views[0])
		if len(views) > 1 {
			question = fmt.Sprintf("Why do you reject all %d?", len(views))
		}
		if f.Reason, err = showAll(ctx, p, views).Ask(question + " (empty: do nothing) "); err != nil && err != io.EOF {
			return err
		}
		if f.Reason == "" {
			return errUndecided
		}
		if wrong := checkReason(f.Reason); wrong != nil {
			return wrong
		}
		return nil
	})
}

// editing edits an item.
type editing struct {
	approverFlags
	Response, Summary string
	SHA256            digests
	Command           *cobra.Command
	Preview           bool
	Yes               bool `short:"y"`
}

func (f *editing) Run(ctx context.Context, p *cli.Program, args []string) error {
	id, err := itemArgument("approvals edit", args)
	if err != nil {
		return err
	}
	response, summary := f.Command.Flags().Changed("response"), f.Command.Flags().Changed("summary")
	digest, look, bound := f.SHA256, f.Preview, len(f.SHA256) > 0
	asking := !f.Yes && !bound && !look && p.Interactive()
	switch {
	case len(digest) > 1:
		return cli.Usagef("approvals edit: expected --sha256 once for each ITEM, in their order")
	case response && summary:
		return cli.Usagef("approvals edit: --response and --summary cannot be combined")
	case !response && !summary:
		return cli.Usagef("approvals edit: expected --response or --summary").WithHint("bcpmesh approvals edit --help shows an example")
	case !asking && !bound && !f.Yes && !look:
		return cli.Usagef("approvals edit: expected --preview, --sha256 or --yes").
			WithHint("--preview shows what would be released, --sha256 releases exactly that")
	}
	var edited any
	if summary {
		edited = map[string]string{tell.SummaryName: f.Summary}
	} else if edited, err = p.AnswerArgument(ctx, "approvals edit", []string{f.Response}, 0); err != nil {
		return err
	}
	return f.as(ctx, p, func(approver *agents.Approver) error {
		view, err := f.view(ctx, approver, id)
		if err != nil {
			return err
		}
		if !tell.Editable(view.Kind) {
			return cli.Failf("%s: %s", id, tell.NotEditable(view.Kind)).WithHint("approve or reject it")
		}
		preview, err := within(ctx, f.Wait, func(ctx context.Context) (bcp.EditPreview, error) { return approver.Preview(ctx, view, edited) })
		if err == nil {
			err = matches(id, preview.Content, preview.SHA256)
		}
		if err == nil && look {
			return p.Out.Show(preview, func() { p.Out.Printf("%s\n", strings.Join(previewLines(&view, preview, p.Out.Width), "\n")) })
		}
		if err == nil {
			err = digest.bind(0, id, preview.SHA256)
		}
		if err == nil && asking {
			q := cli.NewPrompter(ctx, p)
			showLines(q, previewLines(&view, preview, cli.Columns(p.Out.Stderr)))
			err = confirmed(q, tell.EditQuestion(&view)+"?")
		}
		if err == nil {
			err = f.signed(ctx, func(ctx context.Context) error { return approver.Edit(ctx, view, preview) })
		}
		if err != nil {
			return err
		}
		return showDecided(p.Out, &view, bcp.EditItem, preview.SHA256)
	})
}
