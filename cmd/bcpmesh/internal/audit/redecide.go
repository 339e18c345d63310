package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// again are the flags of what decides again.
type again struct {
	meshdir.StateFlags
	client.SpanFlags
	Channel client.ChannelFlag
}

// redecide decides again what was decided, and compares.
type redecide struct {
	again
	Definitions string
	Raw         bool
	Number      cli.NumberFlag `short:"n" default:"20" least:"1"`
	OfRun       string         `flag:"run" not:"definitions since until channel raw"`
}

func (f *redecide) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if f.OfRun != "" {
		return redecideRun(ctx, p, f.StateFlags, f.OfRun)
	}
	by, err := f.Folder()
	if err == nil && f.Definitions != "" {
		by, err = meshdir.Argument([]string{f.Definitions})
	}
	if err != nil {
		return err
	}
	if by.Dir == "" {
		return cli.Usagef("audit redecide: expected --definitions, since only the state is named")
	}
	proposed, err := by.Load()
	if err != nil {
		return err
	}
	report := Redecided{out: p.Out, flags: f, Versions: state.Versions(cli.ProgramVersion()), versions: map[bcp.Digest]string{}}
	report.Definitions = definition.Digest(proposed)
	if report.Context, err = f.decide(ctx, p, proposed, report.each); err != nil {
		return err
	}
	return report.finish()
}

// decide decides the journal again by definitions, and returns their context.
func (f *again) decide(ctx context.Context, p *cli.Program, by *bcp.Mesh, each func(*bcp.Decision, state.Redecision) error) (decided bcp.Digest, err error) {
	o := mesh.RedecideOptions{Definition: by, Version: cli.ProgramVersion(), Since: f.Since.At, Until: f.Until.At, Each: each}
	if f.Channel.Text != "" {
		o.Channel = &f.Channel.Value
	}
	var finish func()
	o.Progress, finish = client.RecordProgress(p, "deciding")
	defer finish()
	source, err := client.OpenSource(ctx, f.StateFlags)
	if err != nil {
		return decided, err
	}
	defer source.Close()
	decided, err = source.Redecide(ctx, o)
	return decided, failure(err, source.Folder.State)
}

// Redecided gathers what differs. Its exported fields are the last line of the
// JSON.
type Redecided struct {
	out      *cli.Output
	flags    *redecide
	versions map[bcp.Digest]string // by the contexts that they were recorded with
	rows     [][]string            // of those that differ, for people

	Decided   int `json:"decided"` // again
	Same      int `json:"same"`
	Differ    int `json:"differ"`
	Verdicts  int `json:"verdicts"` // of those that differ, like the next
	Values    int `json:"values"`
	Charges   int `json:"charges"`
	Records   int `json:"records"`
	Incidents int `json:"incidents"`
	Follow    int `json:"follow"`
	Erased    int `json:"erased"`
	Cut       int `json:"cut"`
	// Unread counts messages beyond max_refusals, of which nobody read a byte.
	Unread int `json:"unread"`
	// Signed counts the decisions of people whose signature was checked, and Forged those
	// of them that nobody signed as they are recorded.
	Signed int      `json:"signed"`
	Forged []uint64 `json:"forged,omitempty"`
	// Definitions is the SHA-256 of those that decide, Versions what decides with
	// them, and Context the digest of all of that; RecordedUnder is what the
	// decisions were made by.
	Definitions   bcp.Digest      `json:"definitions"`
	Context       bcp.Digest      `json:"context"`
	Versions      string          `json:"versions"`
	RecordedUnder []recordedUnder `json:"recorded_under"`
}

// recordedUnder is one context that decisions were made in.
type recordedUnder struct {
	Context  bcp.Digest `json:"context"`
	Versions string     `json:"versions"`
	First    uint64     `json:"first"` // its first decision
	Compared int        `json:"compared"`
}

// redecidedLine is one difference as JSON; its keys are a contract.
type redecidedLine struct {
	Seq          uint64             `json:"seq"`
	Time         time.Time          `json:"time"`
	Kind         bcp.DecisionKind   `json:"kind"`
	Agent        bcp.AgentName      `json:"agent"`
	Controller   bcp.AgentName      `json:"controller,omitempty"`
	Reader       bcp.AgentName      `json:"reader,omitempty"`
	Query        bcp.QueryID        `json:"query_id,omitempty"`
	Subscription bcp.SubscriptionID `json:"subscription_id,omitempty"`
	Comparison   state.Comparison   `json:"comparison"`
	Aspect       state.Aspect       `json:"aspect,omitzero"`
	Rule         string             `json:"rule,omitempty"`
	Incident     bool               `json:"incident,omitzero"`
	Ask          uint64             `json:"ask,omitzero"`
	Was          *judgementLine     `json:"was,omitzero"`
	Would        *judgementLine     `json:"would,omitzero"`
}

type judgementLine struct {
	Verdict   bcp.Outcome    `json:"verdict,omitzero"`
	Code      bcp.Code       `json:"code,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	Field     string         `json:"field,omitempty"`
	Outcome   bcp.Code       `json:"outcome,omitempty"`
	Anomalies []string       `json:"anomalies,omitempty"`
	Nominal   bcp.Bits       `json:"nominal_bits"`
	Capacity  bcp.Bits       `json:"capacity_bits"`
	Response  jsontext.Value `json:"response,omitzero"` // with --raw
}

func (r *Redecided) each(d *bcp.Decision, result state.Redecision) error {
	if d.Versions != "" {
		r.versions[d.Context] = d.Versions
	}
	if d.Kind == bcp.KindRefusals && !d.At().Before(r.flags.Since.At) {
		r.Unread += d.Count
	}
	if d.Role == bcp.RoleApprover && d.Verdict == bcp.Accept && d.Event != string(bcp.Revoke) && !d.Erased && !d.At().Before(r.flags.Since.At) {
		r.Signed++
		if accounts.VerifyDecision(d) != nil {
			r.Forged = append(r.Forged, d.Seq)
		}
	}
	switch result.Comparison {
	case "":
		return nil
	case state.ComparedSame:
		r.Same++
	case state.ComparedDiffers:
		r.Differ++
		*map[state.Aspect]*int{state.AspectVerdict: &r.Verdicts, state.AspectValue: &r.Values, state.AspectCharge: &r.Charges, state.AspectRecord: &r.Records}[result.Aspect]++
		if result.Incident {
			r.Incidents++
		}
	case state.ComparedFollows:
		r.Follow++
	case state.ComparedErased:
		r.Erased++
	case state.ComparedCut:
		r.Cut++
	}
	i := slices.IndexFunc(r.RecordedUnder, func(u recordedUnder) bool { return u.Context == d.Context })
	if i < 0 {
		i = len(r.RecordedUnder)
		r.RecordedUnder = append(r.RecordedUnder, recordedUnder{Context: d.Context, Versions: r.versions[d.Context], First: d.Seq})
	}
	r.RecordedUnder[i].Compared++
	if result.Comparison == state.ComparedSame {
		return nil
	}
	line := r.line(d, &result)
	return r.out.Show(line, func() {
		if line.Was != nil && len(r.rows) < r.flags.Number.Value {
			r.rows = append(r.rows, line.row())
		}
	})
}

func (r *Redecided) line(d *bcp.Decision, result *state.Redecision) redecidedLine {
	line := redecidedLine{Seq: d.Seq, Time: d.At(), Kind: d.Kind, Agent: d.Agent, Controller: d.Controller, Reader: d.Reader, Query: d.Query,
		Subscription: d.Subscription, Comparison: result.Comparison, Aspect: result.Aspect, Rule: result.Rule, Incident: result.Incident, Ask: result.Ask}
	if result.Comparison == state.ComparedDiffers {
		line.Was, line.Would = r.judgement(result.Was), r.judgement(result.Would)
	}
	return line
}

func (r *Redecided) judgement(j *bcp.Decision) *judgementLine {
	line := &judgementLine{Verdict: j.Verdict, Code: j.Code, Field: j.FieldName(), Outcome: j.Outcome, Anomalies: j.Anomalies, Nominal: j.Nominal, Capacity: j.Capacity}
	if j.Reason != 0 {
		line.Reason = j.Reason.String()
	}
	if r.flags.Raw && len(j.Payload) > 0 {
		line.Response = j.Payload
	}
	return line
}

func (l *redecidedLine) row() []string {
	who := string(l.Agent)
	if l.Controller != "" && l.Reader != "" {
		who = cli.ChannelName(l.Controller, l.Reader)
	}
	what := strings.Join(cli.Compact(l.Kind.String(), string(l.Subscription), string(l.Query)), " ")
	if l.Incident {
		what += " (incident)"
	}
	return []string{strconv.FormatUint(l.Seq, 10), l.Time.Format(time.DateTime), who, what, l.Rule + " " + string(l.Aspect), l.Was.words(), l.Would.words()}
}

// words says a judgement in a cell.
func (j *judgementLine) words() string {
	verdict, bits := "", ""
	if j.Verdict != 0 {
		verdict = j.Verdict.String()
	}
	if j.Nominal > 0 || j.Capacity > 0 {
		bits = j.Nominal.Words() + ", capacity " + j.Capacity.Rounded()
	}
	cell := strings.Join(cli.Compact(verdict, string(j.Code), string(j.Outcome), strings.Join(j.Anomalies, "+"), bits), " ")
	if j.Reason != "" {
		cell += "\n" + strings.TrimPrefix(j.Field+": "+j.Reason, ": ")
	}
	if len(j.Response) > 0 {
		cell += "\n" + cli.Quoted(guard.Redact(string(j.Response), guard.All))
	}
	return cell
}

func (r *Redecided) finish() error {
	r.Decided = r.Same + r.Differ
	var err error
	switch impossible := r.Erased + r.Cut; {
	case len(r.Forged) > 0:
		err = cli.Failf("no approver signed %s as recorded: that is an incident", numbered(r.Forged)).
			WithHint("the journal was changed, or the gateway let something through that no approver decided")
	case r.Incidents > 0:
		err = cli.Failf("%s, %d by the very definitions and version that decided: that is an incident", differ(r.Differ), r.Incidents).
			WithHint("the journal was changed, or the gateway did not decide by its recorded definitions")
	case r.Differ > 0:
		err = cli.Failf("%s", differ(r.Differ))
	case impossible > 0:
		err = (&cli.Failure{Code: cli.ExitPartly, Message: cli.Count(impossible, "decision") + " cannot be decided again"}).
			WithHint("nothing else differs; --since leaves out what has expired")
	case r.Decided+r.Follow == 0 && (r.Signed == 0 || r.flags.Channel.Text != ""): // signatures are checked on all channels
		err = r.nothing()
	}
	return errors.Join(r.out.Show(r, r.show), err)
}

// nothing is the failure of a run that compared nothing: that nothing differs would be
// true, and whoever mistyped a channel would take it for a check.
func (r *Redecided) nothing() error {
	f := r.flags
	asked := chosen("--channel", f.Channel.Text, "--since", f.Since.String(), "--until", f.Until.String())
	if asked == "" {
		return cli.Failf("nothing was decided again: the journal has no message that can be").
			WithHint("of a truncated journal only what came later is there; bcpmesh restore puts it together from backups")
	}
	return cli.Failf("nothing was decided again: no message in the journal matches %s", asked).
		WithHint("bcpmesh audit replay shows what was said, when and on which channel")
}

// numbered names the first of some decisions.
func numbered(numbers []uint64) string {
	text := "decision " + strconv.FormatUint(numbers[0], 10)
	if more := len(numbers) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func differ(n int) string {
	if n == 1 {
		return "1 decision differs"
	}
	return fmt.Sprintf("%d decisions differ", n)
}

// show writes the differences for people, then figures.
func (r *Redecided) show() {
	if len(r.rows) > 0 {
		r.out.Table([]string{"seq", "time, UTC", "agent or channel", "about", "rule", "was", "would be"}, r.rows)
		if more := r.Differ - len(r.rows); more > 0 {
			r.out.Printf("and %d more: -n shows them, --json all\n", more)
		}
		r.out.Printf("\n")
	}
	r.out.Printf("decided again  %d: %d same, %d differ (verdicts %d, values %d, charges %d, records %d)\n",
		r.Decided, r.Same, r.Differ, r.Verdicts, r.Values, r.Charges, r.Records)
	r.out.Printf("not possible   %d: %d erased or expired, %d longer than what is kept\n", r.Erased+r.Cut, r.Erased, r.Cut)
	if r.Follow > 0 {
		r.out.Printf("not judged     %s about asks that would be refused\n", cli.Count(r.Follow, "decision"))
	}
	if r.Signed > 0 {
		r.out.Printf("signatures     %s of people, %d of them bad\n", cli.Count(r.Signed, "decision"), len(r.Forged))
	}
	if r.Unread > 0 {
		r.out.Printf("never read     %s beyond max_refusals\n", cli.Count(r.Unread, "message"))
	}
	by := func(context bcp.Digest, versions string) string {
		digest, _ := context.MarshalText()
		return fmt.Sprintf("%.12s, %s", digest, cli.Plain(versions))
	}
	r.out.Printf("by             %s\n", by(r.Context, r.Versions))
	for _, u := range r.RecordedUnder {
		r.out.Printf("recorded by    %s: %s from %d on\n", by(u.Context, u.Versions), cli.Count(u.Compared, "decision"), u.First)
	}
}

// redecideRun decides the records of a run again.
func redecideRun(ctx context.Context, p *cli.Program, where meshdir.StateFlags, id string) error {
	_, def, err := where.Load()
	if err != nil {
		return err
	}
	source, err := client.OpenSource(ctx, where)
	if err != nil {
		return err
	}
	defer source.Close()
	r, err := source.RedecideRun(ctx, def, cli.ProgramVersion(), id)
	switch {
	case errors.Is(err, mesh.ErrRunRecord):
		return cli.Failf("%s", err).WithHint("was the beginning of the run truncated? Otherwise bcpmesh audit verify")
	case err != nil:
		return failure(err, source.Folder.State)
	case r.Records == 0:
		return noRun(id)
	}
	o := p.Out
	if err := o.Show(r, func() {
		o.Table([]string{"record", "kind", "from", "decided again", "differs in"}, cli.Rows(r.Results, func(one *mesh.RunRecord) []string {
			return []string{strconv.FormatUint(one.Decision, 10), one.Kind.String(), string(one.From), one.Result, strings.Join(one.Parts, ", ")}
		}))
		o.Printf("%s of run %s: %d same, %d differ, %d not possible\n", cli.Count(r.Records, "record"), cli.Plain(string(r.Run)), r.Same, r.Differ, r.NotPossible)
	}); err != nil {
		return err
	}
	switch {
	case r.Incidents > 0:
		return cli.Failf("%s: the same definitions and version decide differently", cli.Count(r.Incidents, "incident")).WithHint("bcpmesh audit verify says whether the journal was changed")
	case r.Differ > 0:
		return cli.Failf("%s decided differently by the current definitions", cli.Count(r.Differ, "record")+" would be").WithHint("it was made under others")
	}
	return nil
}
