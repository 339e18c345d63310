package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// replaying tells the audit, or with --raw the journal with its messages: whoever comes with creds has no right to them. Its
// flags say which records, and how.
type replaying struct {
	client.Flags
	client.SpanFlags
	Channel               client.ChannelFlag
	Agent, Session, Query string
	Kind                  cli.WordFlag
	Follow                bool `short:"f"`
	Raw                   bool
	Command               *cobra.Command
}

func (r *replaying) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if !r.Raw {
		c, err := r.Books(ctx, p, r.Follow)
		if err != nil {
			return err
		}
		defer c.Close()
		return r.tell(ctx, p.Out, func(each func(*replayed) error) error { return r.ofAudit(ctx, c, each) })
	}
	if err := forOwner(r.Command, "--raw"); err != nil {
		return err
	}
	if r.Follow {
		return cli.Usagef("audit replay: --raw shows the past, and takes no --follow")
	}
	j, err := client.OpenSource(ctx, r.Where)
	if err != nil {
		return err
	}
	defer j.Close()
	return r.tell(ctx, p.Out, func(each func(*replayed) error) error { return r.ofJournal(ctx, j, each) })
}

// decisionKind is the kind of --kind, 0 for any.
func (r *replaying) decisionKind() bcp.DecisionKind {
	kinds := bcp.DecisionKinds()
	if i := slices.Index(r.Kind.Words, r.Kind.Value); i >= 0 {
		return kinds[i]
	}
	return 0
}

func (r *replaying) tell(ctx context.Context, out *cli.Output, records func(each func(*replayed) error) error) error {
	belongs := r.filter()
	tell := (&teller{out: out}).tell
	if out.JSON {
		tell = func(one *replayed) error {
			if one.Raw == nil {
				return out.Value(&one.Decision)
			}
			return out.Value(one)
		}
	}
	told := false
	err := records(func(one *replayed) error {
		if d := &one.Decision; r.Over(d) {
			return errTold
		} else if !belongs(d) {
			return nil
		}
		told = true
		if err := tell(one); err != nil || !r.Follow {
			return err
		}
		return out.Flush()
	})
	if err != nil && !errors.Is(err, errTold) {
		return err
	}
	if !told && !r.Follow && ctx.Err() == nil {
		out.Talkf("%s", r.nothing())
	}
	return out.Flush()
}

// nothing says that no record is one of those that were asked for.
func (r *replaying) nothing() string {
	asked := chosen("--channel", r.Channel.Text, "--agent", r.Agent, "--session", r.Session, "--query", r.Query,
		"--kind", r.Kind.Value, "--since", r.Since.String(), "--until", r.Until.String())
	if asked == "" {
		return "there are no records"
	}
	return "no record matches " + asked
}

// chosen are those of some flags that have a value.
func chosen(flags ...string) string {
	var given []string
	for pair := range slices.Chunk(flags, 2) {
		if pair[1] != "" {
			given = append(given, pair[0]+" "+pair[1])
		}
	}
	return strings.Join(given, ", ")
}

// filter returns what tells which records are wanted. What belongs to a query
// or a delivery that was, is too: not every record names its session.
func (r *replaying) filter() func(*bcp.Decision) bool {
	if r.Agent == "" && r.Session == "" && r.Query == "" {
		return func(*bcp.Decision) bool { return true }
	}
	agent := bcp.AgentName(r.Agent)
	known := map[string]bool{}
	if r.Query != "" {
		known[r.Query] = true
	}
	return func(d *bcp.Decision) bool {
		ids := [...]string{string(d.Query), string(d.Delivery), string(d.Item), string(d.Notice)}
		wanted := r.Agent != "" && (d.Agent == agent || d.Controller == agent || d.Reader == agent || d.Target == agent) ||
			r.Session != "" && string(d.Session) == r.Session
		for _, id := range ids {
			wanted = wanted || id != "" && known[id]
		}
		if r.Agent != "" && r.Session != "" && wanted {
			wanted = d.Session == "" || string(d.Session) == r.Session
		}
		if wanted {
			for _, id := range ids {
				if id != "" && r.Agent == "" {
					known[id] = true
				}
			}
		}
		return wanted
	}
}

// teller tells records in their order. Those of one exchange that follow each other have one head.
type teller struct {
	out   *cli.Output
	of    string // the exchange that was told last
	begun time.Time
}

func (t *teller) tell(one *replayed) error {
	d := &one.Decision
	of := cmp.Or(string(d.Query), string(d.Item), string(d.Delivery))
	switch d.Kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindAcknowledge, bcp.KindApproval, bcp.KindExpire:
	default:
		t.of = ""
		t.out.Printf("%s", tell.Event(d)+one.rawLines())
		if d.Kind == bcp.KindStart { // what definitions accept is there at each
			for _, accepted := range d.Changes {
				t.out.Printf("%25s%s\n", "", cli.Plain(accepted))
			}
		}
		return nil
	}
	if of == "" || of != t.of {
		t.of, t.begun = of, d.At()
		t.out.Printf("%s", tell.Head(d))
	}
	t.out.Printf("%s", tell.Line(d, t.begun)+one.rawLines())
	return nil
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

// ofAudit has each take what an auditor reads. A decision holds until the next.
func (r *replaying) ofAudit(ctx context.Context, c *client.Client, each func(*replayed) error) error {
	var one replayed
	of := agents.Selection{Controller: r.Channel.Value.Controller, Reader: r.Channel.Value.Reader, Kind: r.decisionKind(), Follow: r.Follow}
	return read(ctx, c, of, r.SpanFlags, func(d *bcp.Decision) error {
		one.Decision = *d
		return each(&one)
	})
}

// errTold ends the reading of a journal.
var errTold = errors.New("enough is told")

// ofJournal has each take what the owner of the state folder reads: the journal, opened.
func (r *replaying) ofJournal(ctx context.Context, j *client.Source, each func(*replayed) error) error {
	kind := r.decisionKind()
	wanted := func(d *bcp.Decision) bool {
		return !d.At().Before(r.Since.At) && (kind == 0 || d.Kind == kind) &&
			(r.Channel.Text == "" || d.Controller == r.Channel.Value.Controller && d.Reader == r.Channel.Value.Reader)
	}
	err := j.Records(ctx, 0, 0, func(r jetstream.Record) error {
		for _, record := range r.Decisions {
			one, err := openReplayed(ctx, j.Keys, record, wanted)
			if err == nil && one != nil {
				err = each(one)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errTold) {
		return err
	}
	return failure(err, j.Folder.State)
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
