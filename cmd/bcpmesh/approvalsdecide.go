package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// decision is what the commands tell of a decision that counted.
type decision struct {
	Item       bcp.ItemID    `json:"item_id"`
	Act        bcp.Act       `json:"decision"`
	Controller bcp.AgentName `json:"controller"`
	Reader     bcp.AgentName `json:"reader"`
	SHA256     bcp.Digest    `json:"sha256"` // of what was signed
}

// decided says what follows from a decision.
func (o *output) decided(view *bcp.ItemView, act bcp.Act, digest bcp.Digest) error {
	if o.json {
		return o.value(decision{view.ID, act, view.Controller, view.Reader, digest})
	}
	o.printf("%s %s: %s\n", decidedWord(act), view.ID, plain(consequence(view, act)))
	return nil
}

func decidedWord(act bcp.Act) string {
	switch act {
	case bcp.Approve:
		return "approved"
	case bcp.RejectItem:
		return "rejected"
	}
	return "edited"
}

// consequence tells who hears what.
func consequence(view *bcp.ItemView, act bcp.Act) string {
	switch {
	case view.Kind == bcp.ItemProposal && act == bcp.Approve:
		return "nothing changes until it is in the definition: bcpmesh proposals apply " + string(view.ID)
	case view.Kind == bcp.ItemProposal:
		return "nothing changes, and no agent hears it"
	case view.Kind == bcp.ItemEscalation && act == bcp.Approve:
		return string(view.Reader) + " is asked; its answer will wait here again"
	case view.Kind == bcp.ItemEscalation:
		return string(view.Controller) + " hears escalation_denied"
	case act != bcp.RejectItem:
		return "it goes to " + string(view.Controller)
	case view.Query != "":
		return string(view.Reader) + " hears the reason, " + string(view.Controller) + " hears approval_rejected"
	}
	return string(view.Reader) + " hears the reason, " + string(view.Controller) + " hears nothing"
}

// whoHears says who is told the reason of a rejection.
func whoHears(view *bcp.ItemView) string {
	if view.Kind == bcp.ItemEscalation || view.Kind == bcp.ItemProposal {
		return "The audit keeps it; no agent hears it."
	}
	return string(view.Reader) + " hears it, " + string(view.Controller) + " does not."
}

// digestFlag is a flag that takes a SHA-256.
type digestFlag struct{ value bcp.Digest }

// String returns the digest.
func (f *digestFlag) String() string {
	if f.value == (bcp.Digest{}) {
		return ""
	}
	return digestText(f.value)
}

// Type names the flag's values in the help.
func (f *digestFlag) Type() string { return "HEX" }

// Set takes a digest.
func (f *digestFlag) Set(s string) error {
	var d bcp.Digest
	if d.UnmarshalText([]byte(s)) != nil || d == (bcp.Digest{}) {
		return fmt.Errorf("expected 64 hexadecimal digits")
	}
	f.value = d
	return nil
}

// bind refuses to go on with other bytes than the person means.
func (f *digestFlag) bind(o *output, id bcp.ItemID, actual bcp.Digest) error {
	if f.value == (bcp.Digest{}) || f.value == actual {
		return nil
	}
	return o.undecided(&agents.RefusedError{Code: bcp.DigestMismatch, Detail: "the sha256 of " + string(id) + " is " + digestText(actual)})
}

// prompter asks the person at the terminal. Questions go to stderr.
type prompter struct {
	out   *output
	lines *lineReader
}

func newPrompter(ctx context.Context, p *program) *prompter {
	return &prompter{out: p.out, lines: newLineReader(interruptible(ctx, p.in))}
}

// interactive reports whether there is a person to ask, who sees what is asked.
func (p *program) interactive() bool { return isTerminal(p.in) && p.out.talkTerminal }

// ask asks for one line. The error is io.EOF where there is none.
func (q *prompter) ask(question string) (string, error) {
	_, _ = fmt.Fprint(q.out.stderr, question) // there is nowhere to report an error of stderr
	line, err := q.lines.next()
	return strings.TrimSpace(string(line)), err
}

// confirm asks a question whose answer is no, unless it is yes.
func (q *prompter) confirm(question string) (bool, error) {
	answer, err := q.ask(question + " [y/N] ")
	switch {
	case err == io.EOF:
		q.out.talkf("")
		return false, nil
	case err != nil:
		return false, err
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), nil
}

// show shows an item to the person who is asked about it next.
func (q *prompter) show(lines []itemLine) {
	writeItem(q.out.stderr, lines, q.out.talkTerminal && q.out.colours)
	q.out.talkf("")
}

var errUndecided = failf("nothing was decided").withHint("the item waits until its deadline")

func approveCommand(p *program) *cobra.Command {
	var f approverFlags
	var digest digestFlag
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve ITEM",
		Short: "Release an item, exactly as it was shown",
		Long: `Release an item: the content goes to its controller, or the question of an
escalation to its reader. On a terminal the item is shown first, and then you are
asked.

The decision signs the SHA-256 of the released bytes. Without a terminal, --sha256
binds it to what you were shown before: if the item is anything else, nothing is
released (digest_mismatch). With --yes alone you release what you have not seen.`,
		Example: `  bcpmesh approvals approve iEXAMPLE
  bcpmesh approvals approve iEXAMPLE --sha256 HEX`,
		Args:              arguments(1, "ITEM"),
		ValidArgsFunction: completeItems(&f.who),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := itemArgument(cmd, args)
			if err != nil {
				return err
			}
			bound := digest.value != (bcp.Digest{})
			asking := !yes && p.interactive()
			if !asking && !bound && !yes {
				return usagef("approvals approve: expected --sha256, or --yes for what you have not seen").
					withHint("bcpmesh approvals show %s shows the item and its sha256", id)
			}
			c, approver, err := f.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			view, err := f.view(ctx, p, approver, id)
			if err != nil {
				return err
			}
			if err := digest.bind(p.out, id, view.SHA256); err != nil {
				return err
			}
			if asking {
				q := newPrompter(ctx, p)
				q.show(itemLines(&view, time.Now(), widthOf(p.out.stderr)))
				if ok, err := q.confirm(approveQuestion(&view)); err != nil || !ok {
					return undecidedOr(err)
				}
			}
			err = f.within(ctx, func(ctx context.Context) error { return approver.Approve(ctx, view) })
			if err != nil {
				return p.out.undecided(err)
			}
			return p.out.decided(&view, bcp.Approve, view.SHA256)
		},
	}
	f.addTo(cmd)
	cmd.Flags().Var(&digest, "sha256", "release these bytes or nothing: the SHA-256 that show told")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func approveQuestion(view *bcp.ItemView) string {
	if view.Kind == bcp.ItemEscalation {
		return "Let " + string(view.Controller) + " ask this of " + string(view.Reader) + "?"
	}
	if view.Kind == bcp.ItemProposal {
		return "Have " + string(view.Reader) + " push exactly this to " + string(view.Controller) + "?"
	}
	return "Release exactly this to " + string(view.Controller) + "?"
}

func undecidedOr(err error) error {
	if err != nil {
		return err
	}
	return errUndecided
}

// maxReason is how long the reason of a rejection may be, as the gateway has it.
const maxReason = 500

// checkReason says what is wrong with a reason, which the gateway keeps to a word.
func checkReason(reason string) *failure {
	switch {
	case strings.TrimSpace(reason) == "":
		return usagef("a rejection has a reason").withHint("say in a line what is wrong: the reader hears it, the controller does not")
	case utf8.RuneCountInString(reason) > maxReason:
		return usagef("the reason has %d characters, and may have %d", utf8.RuneCountInString(reason), maxReason)
	case reason != plain(reason):
		return usagef("the reason has characters that do not show: %s", quoted(reason)).withHint("write it in one line of plain text")
	}
	return nil
}

func rejectCommand(p *program) *cobra.Command {
	var f approverFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "reject ITEM",
		Short: "Refuse an item, with a reason",
		Long: `Refuse an item. The reader whose answer it was hears the reason, so do not write
anything into it that an attacker should not know. The controller hears that it
was rejected and no more; of a push it hears nothing. The bits stay charged. Why an
escalation is refused, no agent hears.

On a terminal, without --reason, the item is shown and you are asked for it.`,
		Example: `  bcpmesh approvals reject iEXAMPLE --reason 'It asks for a payment.'
  bcpmesh approvals reject iEXAMPLE --reason 'Too long.' --json`,
		Args:              arguments(1, "ITEM"),
		ValidArgsFunction: completeItems(&f.who),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := itemArgument(cmd, args)
			if err != nil {
				return err
			}
			asking := !cmd.Flags().Changed("reason")
			if asking && !p.interactive() {
				return usagef("approvals reject: expected --reason").withHint("%s --help shows an example", cmd.CommandPath())
			}
			if wrong := checkReason(reason); !asking && wrong != nil {
				return wrong
			}
			c, approver, err := f.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			view, err := f.view(ctx, p, approver, id)
			if err != nil {
				return err
			}
			if asking {
				q := newPrompter(ctx, p)
				q.show(itemLines(&view, time.Now(), widthOf(p.out.stderr)))
				if reason, err = q.ask("Why do you reject it? " + whoHears(&view) + " (empty: do nothing) "); err != nil && err != io.EOF {
					return err
				}
				if reason == "" {
					return errUndecided
				}
				if wrong := checkReason(reason); wrong != nil {
					return wrong
				}
			}
			err = f.within(ctx, func(ctx context.Context) error { return approver.Reject(ctx, view, reason) })
			if err != nil {
				return p.out.undecided(err)
			}
			return p.out.decided(&view, bcp.RejectItem, reasonDigest(reason))
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "what the reader is told, in one `LINE` of at most 500 characters")
	return cmd
}

func editCommand(p *program) *cobra.Command {
	var f approverFlags
	var response, summary string
	var digest digestFlag
	var yes, look bool
	cmd := &cobra.Command{
		Use:   "edit ITEM",
		Short: "Release something else in place of an item's content",
		Long: `Release your own words in place of an item's content. They are validated like an
answer and brought into the one spelling in which they would be delivered; you see
that spelling and what it replaces, and are asked. The controller cannot tell an
edit from an answer.

On a terminal, without --response and --summary, $VISUAL or $EDITOR opens with the
content. Without a terminal, --preview shows what would be released and its
SHA-256, and --sha256 or --yes releases it.`,
		Example: `  bcpmesh approvals edit iEXAMPLE
  bcpmesh approvals edit iEXAMPLE --summary 'Two invoices came in.' --preview
  bcpmesh approvals edit iEXAMPLE --response '{"who":"ann lee"}' --sha256 HEX`,
		Args:              arguments(1, "ITEM"),
		ValidArgsFunction: completeItems(&f.who),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := itemArgument(cmd, args)
			if err != nil {
				return err
			}
			given := cmd.Flags().Changed("response") || cmd.Flags().Changed("summary")
			bound := digest.value != (bcp.Digest{})
			asking := !yes && !bound && !look && p.interactive()
			switch {
			case cmd.Flags().Changed("response") && cmd.Flags().Changed("summary"):
				return usagef("approvals edit: --response and --summary do not go together")
			case !given && !p.interactive():
				return usagef("approvals edit: expected --response or --summary").withHint("%s --help shows an example", cmd.CommandPath())
			case !asking && !bound && !yes && !look:
				return usagef("approvals edit: expected --preview, --sha256 or --yes").
					withHint("--preview shows what would be released, --sha256 releases exactly that")
			}
			var edited any
			switch {
			case cmd.Flags().Changed("response"):
				if edited, err = editArgument(ctx, p, response); err != nil {
					return err
				}
			case given:
				edited = map[string]string{summaryName: summary}
			}
			c, approver, err := f.connect(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			view, err := f.view(ctx, p, approver, id)
			if err != nil {
				return err
			}
			if view.Kind == bcp.ItemProposal {
				return failf("%s is a subscription that %s wants: it is approved as it is, or not", id, view.Controller).withHint("approve or reject it")
			}
			if view.Kind == bcp.ItemEscalation {
				return failf("%s is a question that waits to be asked: there is nothing to edit", id).withHint("approve or reject it")
			}
			if !given {
				if edited, err = openEditor(ctx, p, &view); err != nil {
					return err
				}
			}
			var preview bcp.EditPreview
			err = f.within(ctx, func(ctx context.Context) error {
				preview, err = approver.Preview(ctx, view, edited)
				return err
			})
			if err != nil {
				return p.out.undecided(err)
			}
			if err := matches(id, preview.Content, preview.SHA256); err != nil {
				return err
			}
			if look {
				return p.out.preview(&view, preview)
			}
			if err := digest.bind(p.out, id, preview.SHA256); err != nil {
				return err
			}
			if asking {
				q := newPrompter(ctx, p)
				q.show(previewLines(&view, preview, widthOf(p.out.stderr)))
				if ok, err := q.confirm("Release this to " + string(view.Controller) + " in its place?"); err != nil || !ok {
					return undecidedOr(err)
				}
			}
			err = f.within(ctx, func(ctx context.Context) error { return approver.Edit(ctx, view, preview) })
			if err != nil {
				return p.out.undecided(err)
			}
			return p.out.decided(&view, bcp.EditItem, preview.SHA256)
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&response, "response", "", "the answer as `JSON`, as @FILE, or - for stdin")
	cmd.Flags().StringVar(&summary, "summary", "", "of a category 3 item: its new `TEXT`")
	cmd.Flags().BoolVar(&look, "preview", false, "only show what would be released")
	cmd.Flags().Var(&digest, "sha256", "release these bytes or nothing: the SHA-256 that --preview told")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// preview shows what an edit would release.
func (o *output) preview(view *bcp.ItemView, preview bcp.EditPreview) error {
	if o.json {
		return o.value(preview)
	}
	writeItem(o.stdout, previewLines(view, preview, widthOf(o.screen)), o.terminal && o.colours)
	return nil
}

// editArgument reads what an edit releases: JSON, @FILE or - for stdin.
func editArgument(ctx context.Context, p *program, s string) (jsontext.Value, error) {
	text, where := []byte(s), "--response"
	if name, isFile := strings.CutPrefix(s, "@"); isFile || s == "-" {
		if s == "-" {
			name = s
		}
		var err error
		if text, err = readArgument(ctx, name, p.in); err != nil {
			return nil, err
		}
		where = nameOf(name)
	}
	value := jsontext.Value(text)
	if !value.IsValid() || value.Kind() != '{' {
		f := usagef("approvals edit: %s is not a JSON object: %s", where, quoted(string(text)))
		if where != "--response" {
			f.code = exitFailed
		}
		return nil, f.withHint("its members are those of the answer, for example {\"summary\":\"…\"}")
	}
	return value, nil
}

// stdinFile is stdin where a child process can have it.
func stdinFile(p *program) *os.File {
	file, _ := p.in.(*os.File)
	return file
}
