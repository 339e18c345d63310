package audit

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

func auditReplayCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var r Replaying
	r.kind.Name = "KIND"
	for _, kind := range bcp.DecisionKinds() {
		r.kind.Words = append(r.kind.Words, kind.String())
	}
	cmd := &cobra.Command{
		Use: "replay",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.raw {
				return r.runRaw(cmd, p.Out, &who)
			}
			c, err := who.Books(cmd.Context(), p, r.follow)
			if err != nil {
				return err
			}
			defer c.Close()
			return r.run(cmd.Context(), p.Out, r.OfAudit(cmd.Context(), c))
		},
	}
	who.AddTo(cmd, "auditor")
	r.span.AddTo(cmd)
	r.channel.AddTo(cmd)
	cmd.Flags().StringVar(&r.agent, "agent", "", "only what involves this `AGENT` or person")
	cli.Complete(cmd, "agent", meshdir.CompleteAgents(true))
	cmd.Flags().StringVar(&r.session, "session", "", "only this session's `ID`")
	cmd.Flags().StringVar(&r.query, "query", "", "only the exchange with this `ID` of a query, delivery or item")
	cli.Complete(cmd, "query", cobra.NoFileCompletions)
	r.kind.AddTo(cmd, "kind", "only records of this kind, such as ask, answer, approval or violation")
	cmd.Flags().BoolVar(&r.raw, "raw", false, "show verbatim messages: hostile text, for the owner of the state folder")
	cmd.Flags().BoolVarP(&r.follow, "follow", "f", false, "follow new records until interrupted")
	return cmd
}

// Replaying is one replay: which records, and how.
type Replaying struct {
	span                  client.SpanFlags
	channel               client.ChannelFlag
	agent, session, query string
	kind                  cli.WordFlag
	follow, raw           bool
}

// decisionKind is the kind of --kind, 0 for any.
func (r *Replaying) decisionKind() bcp.DecisionKind {
	for _, kind := range bcp.DecisionKinds() {
		if kind.String() == r.kind.Value {
			return kind
		}
	}
	return 0
}

// runRaw tells the journal with its messages. Whoever comes with creds has no right
// to them.
func (r *Replaying) runRaw(cmd *cobra.Command, out *cli.Output, who *client.Flags) error {
	if err := forOwner(cmd, "--raw"); err != nil {
		return err
	}
	if r.follow {
		return cli.Usagef("audit replay: --raw shows the past, and takes no --follow")
	}
	j, err := client.OpenSource(cmd.Context(), who.Where)
	if err != nil {
		return err
	}
	defer j.Close()
	return r.run(cmd.Context(), out, r.ofJournal(cmd.Context(), j))
}

func (r *Replaying) run(ctx context.Context, out *cli.Output, records iter.Seq2[*replayed, error]) error {
	belongs := r.filter()
	teller := newTeller(out)
	tell := teller.tell
	if r.decisionKind() != 0 { // there are no exchanges of one kind
		tell = teller.standalone
	}
	if out.JSON {
		tell = func(one *replayed) error {
			if one.Raw == nil {
				return out.Line(&one.Decision)
			}
			return out.Line(one)
		}
	}
	told := false
	for one, err := range records {
		if err != nil {
			return err
		}
		d := &one.Decision
		if r.span.Over(d) {
			break
		}
		if !belongs(d) {
			continue
		}
		told = true
		if err := tell(one); err != nil {
			return err
		}
		if r.follow {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	teller.tellOpen()
	if !told && !r.follow && ctx.Err() == nil {
		out.Talkf("%s", r.nothing())
	}
	return out.Flush()
}

// nothing says that no record is one of those that were asked for.
func (r *Replaying) nothing() string {
	var chosen []string
	for _, flag := range [][2]string{{"--channel", r.channel.Text}, {"--agent", r.agent}, {"--session", r.session}, {"--query", r.query},
		{"--kind", r.kind.Value}, {"--since", r.span.Since.String()}, {"--until", r.span.Until.String()}} {
		if flag[1] != "" {
			chosen = append(chosen, flag[0]+" "+flag[1])
		}
	}
	if len(chosen) == 0 {
		return "there are no records"
	}
	return "no record matches " + strings.Join(chosen, ", ")
}

// filter returns what tells which records are wanted. What belongs to a query
// or a delivery that was, is too: not every record names its session.
func (r *Replaying) filter() func(*bcp.Decision) bool {
	if r.agent == "" && r.session == "" && r.query == "" {
		return func(*bcp.Decision) bool { return true }
	}
	agent := bcp.AgentName(r.agent)
	known := map[string]bool{}
	if r.query != "" {
		known[r.query] = true
	}
	return func(d *bcp.Decision) bool {
		ids := [...]string{string(d.Query), string(d.Delivery), string(d.Item), string(d.Notice)}
		wanted := r.agent != "" && (d.Agent == agent || d.Controller == agent || d.Reader == agent || d.Target == agent) ||
			r.session != "" && string(d.Session) == r.session
		for _, id := range ids {
			wanted = wanted || id != "" && known[id]
		}
		if r.agent != "" && r.session != "" && wanted {
			wanted = d.Session == "" || string(d.Session) == r.session
		}
		if wanted {
			for _, id := range ids {
				if id != "" && r.agent == "" {
					known[id] = true
				}
			}
		}
		return wanted
	}
}

// teller tells exchanges. It holds those that go on, at most maxTold.
type teller struct {
	out   *cli.Output
	open  map[string]*exchange
	of    map[bcp.DeliveryID]string // the exchange that a delivery belongs to
	order []string                  // of the open ones and others, oldest first
}

// exchange is what one query or push led to, so far.
type exchange struct {
	begun   time.Time
	lines   strings.Builder
	ended   bool // nothing but acknowledgements can come
	waiting map[bcp.DeliveryID]bool
}

const maxTold = 4096

func newTeller(out *cli.Output) *teller {
	return &teller{out: out, open: map[string]*exchange{}, of: map[bcp.DeliveryID]string{}}
}

// exchangeKey names the exchange that a decision belongs to; it is empty for one that
// stands alone.
func (t *teller) exchangeKey(d *bcp.Decision) string {
	switch {
	case d.Kind == bcp.KindAcknowledge && d.Delivery != "":
		return t.of[d.Delivery]
	case d.Kind == bcp.KindAcknowledge || d.Check == bcp.CheckQuery:
		return ""
	case d.Query != "":
		return string(d.Query)
	case d.Item != "":
		return string(d.Item)
	}
	return string(d.Delivery)
}

func (t *teller) tell(one *replayed) error {
	d := &one.Decision
	key := t.exchangeKey(d)
	if key == "" {
		return t.standalone(one)
	}
	e := t.open[key]
	if e == nil {
		if len(t.open) >= maxTold {
			t.oldest()
		}
		e = &exchange{begun: d.At(), waiting: map[bcp.DeliveryID]bool{}}
		t.open[key] = e
		t.order = append(t.order, key)
		e.lines.WriteString(tell.Head(d))
	}
	e.lines.WriteString(tell.Line(d, e.begun) + one.rawLines())
	switch {
	case d.Kind == bcp.KindAcknowledge:
		delete(e.waiting, d.Delivery)
		delete(t.of, d.Delivery)
	case d.Repeat:
	case d.Delivery != "":
		e.waiting[d.Delivery] = true
		t.of[d.Delivery] = key
		e.ended = e.ended || d.Outcome != bcp.Held
	case d.Kind == bcp.KindAsk && d.Verdict == bcp.Reject, d.Kind == bcp.KindPush && d.Verdict == bcp.Reject:
		e.ended = true
	case d.Query == "" && (d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept || d.Kind == bcp.KindExpire):
		e.ended = true // a held push that nobody hears of
	}
	if e.ended && len(e.waiting) == 0 {
		t.close(key)
	}
	return nil
}

// standalone prints a record that belongs to no exchange.
func (t *teller) standalone(one *replayed) error {
	d := &one.Decision
	switch d.Kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindApproval, bcp.KindExpire:
		t.out.Printf("%s", tell.Head(d)+tell.Line(d, d.At())+one.rawLines())
	default:
		t.out.Printf("%s", tell.Event(d)+one.rawLines())
	}
	return nil
}

// close tells an exchange.
func (t *teller) close(key string) {
	e := t.open[key]
	delete(t.open, key)
	for id := range e.waiting {
		delete(t.of, id)
	}
	if len(t.order) > 2*maxTold {
		var still []string
		for _, one := range t.order {
			if t.open[one] != nil {
				still = append(still, one)
			}
		}
		t.order = still
	}
	t.out.Printf("%s", e.lines.String())
}

// oldest tells the one that has been open for longest.
func (t *teller) oldest() {
	for len(t.order) > 0 {
		key := t.order[0]
		t.order = t.order[1:]
		if t.open[key] != nil {
			t.open[key].lines.WriteString("            it is still open\n")
			t.close(key)
			return
		}
	}
}

// tellOpen tells what is still open.
func (t *teller) tellOpen() {
	for len(t.open) > 0 {
		t.oldest()
	}
}

// replayed is a decision that is told, with the message that it is about if
// somebody may see it. Its JSON is that of the decision, and raw.
type replayed struct {
	bcp.Decision
	Raw *rawMessage `json:"raw,omitzero"`
}

// rawMessage is a verbatim message.
type rawMessage struct {
	Base64 []byte `json:"base64,omitempty"`
	Bytes  int    `json:"bytes,omitzero"`  // how long it was: of more than 64 KiB the first are kept
	Erased bool   `json:"erased,omitzero"` // by the operator, or with raw_retention
}

// OfAudit returns what an auditor reads. A decision holds until the next.
func (r *Replaying) OfAudit(ctx context.Context, c *client.Client) iter.Seq2[*replayed, error] {
	return func(yield func(*replayed, error) bool) {
		from, err := r.span.From(ctx, c.Auditor())
		if err != nil {
			yield(nil, meshdir.Failure(err))
			return
		}
		var one replayed
		for record, err := range c.Auditor().Select(ctx, agents.Selection{From: from, Controller: r.channel.Value.Controller, Reader: r.channel.Value.Reader, Kind: r.decisionKind(), Follow: r.follow}) {
			if err != nil {
				yield(nil, meshdir.Failure(err))
				return
			}
			one.Decision = record.Decision
			if !yield(&one, nil) {
				return
			}
		}
	}
}

// errTold ends the reading of a journal.
var errTold = errors.New("enough is told")

// ofJournal returns what the owner of the state folder reads: the journal, opened.
func (r *Replaying) ofJournal(ctx context.Context, j *client.Source) iter.Seq2[*replayed, error] {
	kind := r.decisionKind()
	wanted := func(d *bcp.Decision) bool {
		return !d.At().Before(r.span.Since.At) && (kind == 0 || d.Kind == kind) &&
			(r.channel.Text == "" || d.Controller == r.channel.Value.Controller && d.Reader == r.channel.Value.Reader)
	}
	return func(yield func(*replayed, error) bool) {
		err := j.Records(ctx, func(decisions [][]byte, _ uint64) error {
			for _, record := range decisions {
				one, err := openReplayed(ctx, j.Keys, record, wanted)
				if err == nil && one != nil {
					if !yield(one, nil) {
						err = errTold
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		switch {
		case err == nil, errors.Is(err, errTold):
		case errors.Is(err, jetstream.ErrKeyLost):
			yield(nil, cli.Failf("%s", cli.Plain(err.Error())))
		default:
			yield(nil, client.JournalFailure(err, j.Folder.State))
		}
	}
}

// openReplayed opens a decision of the journal, nil if it is not wanted.
func openReplayed(ctx context.Context, keys *jetstream.SealingKeys, record []byte, wanted func(*bcp.Decision) bool) (*replayed, error) {
	d, err := bcp.DecodeDecision(record)
	if err != nil || !wanted(&d) {
		return nil, err
	}
	opened, err := keys.Recorded(ctx, record)
	if err != nil {
		return nil, err
	}
	one := &replayed{Decision: opened.Decision}
	if len(d.SealedRaw) > 0 {
		one.Raw = &rawMessage{Base64: opened.Message, Bytes: max(opened.Decision.RawBytes, len(opened.Message)), Erased: opened.Gone}
	}
	return one, nil
}

// rawWidth is how wide a message is shown.
const rawWidth = 100

// rawLines shows the message of a decision under its line. It is told whose words
// these are, and each of its lines follows a bar, like all hostile text. Secrets
// in it are hidden.
func (t *replayed) rawLines() string {
	const indent = "            "
	switch {
	case t.Raw == nil:
		return ""
	case t.Raw.Erased:
		return indent + "verbatim: erased\n"
	}
	head := indent + "verbatim, " + cli.Count(t.Raw.Bytes, "byte")
	if kept := len(t.Raw.Base64); kept < t.Raw.Bytes {
		head += ", the first " + cli.Count(kept, "byte")
	}
	if t.Role == bcp.RoleReader {
		head += ": HOSTILE TEXT of " + string(t.Agent)
	} else {
		head += ": text of " + string(t.Agent)
	}
	text := head + "\n"
	for _, line := range inert.Prefixed(indent+inert.Gutter, guard.Redact(string(t.Raw.Base64), guard.All), rawWidth) {
		text += line + "\n"
	}
	return text
}
