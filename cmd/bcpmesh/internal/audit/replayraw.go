package audit

import (
	"context"
	"errors"
	"iter"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

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
// in it are hidden unless unredacted is set.
func (t *replayed) rawLines(unredacted bool) string {
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
	message, text := string(t.Raw.Base64), head+"\n"
	if !unredacted {
		message = guard.Redact(message, guard.All)
	}
	for _, line := range inert.Prefixed(indent+inert.Gutter, message, rawWidth) {
		text += line + "\n"
	}
	return text
}
