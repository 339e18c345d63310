package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/conformance"
)

const (
	// conformanceReach is how long the mesh may take to say what there is.
	conformanceReach = 10 * time.Second
	// conformanceQuiet is how long is waited for records that should not come.
	conformanceQuiet = time.Second
	// arrivalPause is between two looks at who is connected.
	arrivalPause = 250 * time.Millisecond
	// shownWindow is how many deliveries of a channel the gateway has on their way
	// at once: what is behind as many that nobody acknowledges does not come.
	shownWindow = 64
	// conformanceJustification goes with a category 3 question, which is always an
	// escalation.
	conformanceJustification = "the operator tests whether this reader answers in category three"
)

// runningTest plays the other end of a channel against an agent of a mesh that runs.
type runningTest struct {
	*cli.Program
	flags  conformanceFlags
	peer   *client.Client
	audit  *witness // nil where nobody gave creds of an auditor
	tested bcp.AgentName
}

// conformRunning tests an agent that is connected to its own mesh.
func conformRunning(p *cli.Program, ctx context.Context, f conformanceFlags) error {
	end := bcp.RoleController
	if f.role == bcp.RoleController {
		end = bcp.RoleReader
	}
	if f.creds == "" {
		return cli.Usagef("conformance %s: --url needs --creds FILE, those of a %s of the agent's", f.role, end).WithHint("bcpmesh creds issue AGENT --out FILE makes them")
	}
	categories, err := f.asked()
	if err != nil {
		return err
	}
	t := &runningTest{Program: p, flags: f}
	if t.peer, err = f.join(ctx, f.creds, end); err != nil {
		return err
	}
	defer t.peer.Close()
	if f.auditor != "" {
		c, err := f.join(ctx, f.auditor, bcp.RoleAuditor)
		if err != nil {
			return err
		}
		defer c.Close()
		if t.audit, err = newWitness(ctx, agents.NewAuditor(c.Connection)); err != nil {
			return err
		}
	}
	var report conformance.Report
	if f.role == bcp.RoleReader {
		report, err = t.reader(ctx, categories)
	} else {
		report, err = t.controller(ctx)
	}
	if err != nil {
		return err
	}
	return concludeConformance(p, report)
}

// join connects with a creds file, which has to be of a role.
func (f *conformanceFlags) join(ctx context.Context, file string, role bcp.Role) (*client.Client, error) {
	who, err := meshdir.ReadCreds(file)
	if err != nil {
		return nil, err
	}
	if who.Role != role {
		return nil, cli.Failf("%s belongs to %s, %s: expected a %s's", cli.Quoted(file), who.Agent, who.Role, role)
	}
	as := client.Flags{As: string(who.Agent), Creds: file, URL: f.url, CA: f.ca, Encoding: f.encoding}
	if role == bcp.RoleAuditor {
		as.Encoding.Value = "json"
	}
	return as.Remote(ctx, role)
}

// choose finds the agent under test among those at the other end.
func (t *runningTest) choose(names []string) error {
	switch {
	case len(names) == 0:
		return cli.Failf("%s has no channel to a %s", t.peer.Name, t.flags.role).WithHint("--creds must be those of the other end of the agent's channel")
	case t.flags.agent == "" && len(names) > 1:
		return cli.Usagef("conformance %s: --agent: %s has several: %s", t.flags.role, t.peer.Name, cli.JoinOr(names))
	case t.flags.agent != "" && !slices.Contains(names, t.flags.agent):
		return cli.Usagef("conformance %s: --agent: %s has no channel to %s", t.flags.role, t.peer.Name, cli.Quoted(t.flags.agent)).WithHint("there is %s", cli.JoinOr(names))
	}
	t.tested = bcp.AgentName(cmp.Or(t.flags.agent, names[0]))
	return nil
}

// arrived fails if the audit says that the agent is not connected.
func (t *runningTest) arrived(ctx context.Context) error {
	if t.audit == nil {
		return nil
	}
	there, err := t.audit.connected(ctx, t.tested, t.flags.role)
	for begin := time.Now(); err == nil && !there && time.Since(begin) < t.flags.arrival.Value; {
		if err = t.audit.follow(ctx, arrivalPause, never); err == nil {
			there, err = t.audit.connected(ctx, t.tested, t.flags.role)
		}
	}
	if err == nil && !there {
		return cli.Failf("%s is not connected as %s: nothing was spent", t.tested, t.flags.role).
			WithHint("start it with its own creds; --arrival 1m waits for it, and bcpmesh creds list shows who is connected")
	}
	return err
}

// spend asks whether to go on with what costs bits.
func (t *runningTest) spend(ctx context.Context, what string) error {
	t.Out.Talkf("%s", what)
	if t.flags.yes {
		return nil
	}
	if !t.Program.Interactive() {
		return cli.Usagef("conformance %s: expected --yes, since there is no terminal to ask on; nothing was spent", t.flags.role)
	}
	ok, err := cli.NewPrompter(ctx, t.Program).Confirm("Go on?")
	if err == nil && !ok {
		return cli.Failf("nothing was spent")
	}
	return err
}

// judge makes the checklist of what was seen.
func (t *runningTest) judge(s conformance.Seen) conformance.Report {
	s.Role, s.Agent = t.flags.role, t.tested
	if t.audit != nil {
		s.Audited, s.Records = true, t.audit.records
	}
	report := conformance.Judge(s)
	report.Arrived = report.Arrived || t.audit != nil
	return report
}

// reader asks a Reader as its Controller.
func (t *runningTest) reader(ctx context.Context, categories []bcp.Category) (conformance.Report, error) {
	controller := agents.NewController(t.peer.Connection)
	reaching, cancel := context.WithTimeout(ctx, conformanceReach)
	defer cancel()
	channels, err := controller.Channels(reaching)
	if err != nil {
		return conformance.Report{}, meshdir.Failure(err)
	}
	var names []string
	for i := range channels {
		names = append(names, string(channels[i].Reader))
	}
	if err := t.choose(names); err != nil {
		return conformance.Report{}, err
	}
	channel := &channels[slices.Index(names, string(t.tested))]
	questions, cost := plan(channel, categories)
	if cost > channel.Remaining {
		return conformance.Report{}, cli.Failf("the questions cost up to %s, and %s has %s left: nothing was spent", cli.Bits(cost), cli.ChannelName(t.peer.Name, t.tested), cli.Bits(channel.Remaining)).
			WithHint("--categories 1 costs less")
	}
	if err := t.arrived(ctx); err != nil {
		return conformance.Report{}, err
	}
	if cost > 0 {
		if err := t.spend(ctx, fmt.Sprintf("%s is asked in %s's place, for up to %s of the %s that are left", t.tested, t.peer.Name, cli.Bits(cost), cli.Bits(channel.Remaining))); err != nil {
			return conformance.Report{}, err
		}
	}
	in := newAnswers(controller)
	if err := controller.Start(ctx); err != nil {
		return conformance.Report{}, meshdir.Failure(err)
	}
	asked, came := 0, 0
	for i := range questions {
		q := &questions[i]
		if q.Why != "" {
			continue
		}
		if err := in.ask(ctx, t, q); err != nil {
			return conformance.Report{}, err
		}
		if q.Query != "" {
			asked++
		}
		if q.Delivery != nil {
			came++
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = controller.Stop(ended) // its error is that it was in a hurry
	if t.audit != nil {
		if err := t.audit.follow(ctx, conformanceQuiet, never); err != nil {
			return conformance.Report{}, err
		}
	}
	if ahead := in.countUnread(); came < asked && ahead >= shownWindow {
		return conformance.Report{}, cli.Failf("%d earlier deliveries for %s are waiting to be acknowledged", ahead, t.peer.Name).
			WithHint("have them acknowledged, by %s itself or by bcpmesh inbox", t.peer.Name)
	}
	report := t.judge(conformance.Seen{Peer: t.peer.Name, Questions: questions})
	held := slices.ContainsFunc(questions, func(q conformance.Question) bool { return q.Delivery != nil && q.Delivery.Outcome == bcp.Held })
	if asked > 0 && !report.Arrived && !held {
		return report, cli.Failf("%s answered nothing within %s", t.tested, &t.flags.patience).
			WithHint("is it connected? bcpmesh creds list on the mesh's machine shows it, and so does --auditor FILE here; --patience gives it more time")
	}
	return report, nil
}

// plan says what a Reader is asked, and what that costs at most. Category 2 comes
// first: after a narrower question that was not answered it would be an
// escalation.
func plan(channel *bcp.ChannelView, categories []bcp.Category) (questions []conformance.Question, cost bcp.Bits) {
	for _, category := range []bcp.Category{2, 1, 3} {
		q := conformance.Question{Category: category}
		switch {
		case category > channel.MaxCategory:
			q.Why = fmt.Sprintf("the channel goes up to category %d", channel.MaxCategory)
		case !slices.Contains(categories, category):
			q.Why = "it was not asked in this category"
		case category == 2 && escalates(channel, category):
			q.Why = "it would be an escalation of the session; bcpmesh session close ends that"
		default:
			if v, err := bcp.Compile(conformance.SpecOf(category), bcp.Settings{}); err == nil {
				cost += v.Prices().Nominal
			}
		}
		questions = append(questions, q)
	}
	return questions, cost
}

// escalates reports whether a question of a category would be an escalation now.
func escalates(channel *bcp.ChannelView, category bcp.Category) bool {
	return slices.ContainsFunc(channel.Costs, func(c bcp.Cost) bool { return c.Category == category && c.Escalation })
}

// answers are the deliveries of a Controller that others may be, too: those of its
// own queries are acknowledged, and the others stay with the gateway.
type answers struct {
	controller *agents.Controller
	arrived    chan struct{} // has an element where something came

	mu     sync.Mutex // guards what follows
	came   map[bcp.QueryID]bcp.Delivery
	others map[bcp.DeliveryID]bool
}

func newAnswers(c *agents.Controller) *answers {
	a := &answers{controller: c, arrived: make(chan struct{}, 1), came: map[bcp.QueryID]bcp.Delivery{}, others: map[bcp.DeliveryID]bool{}}
	c.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.others[d.DeliveryID] = true
		if d.QueryID != "" {
			a.came[d.QueryID] = d
		}
		select {
		case a.arrived <- struct{}{}:
		default:
		}
		return agents.ErrKeep
	})
	return a
}

// take returns the newest delivery of a query, and acknowledges it.
func (a *answers) take(query bcp.QueryID) *bcp.Delivery {
	a.mu.Lock()
	d, ok := a.came[query]
	delete(a.came, query)
	delete(a.others, d.DeliveryID)
	a.mu.Unlock()
	if !ok {
		return nil
	}
	a.controller.Acknowledge(d.DeliveryID)
	return &d
}

// countUnread counts the deliveries that came and are not its own.
func (a *answers) countUnread() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.others)
}

// ask asks one question and waits for what comes of it. Held is the end of it,
// but for a summary.
func (a *answers) ask(ctx context.Context, t *runningTest, q *conformance.Question) error {
	reaching, cancel := context.WithTimeout(ctx, conformanceReach)
	defer cancel()
	var o agents.AskOptions
	if q.Category == 3 {
		o.Justification = conformanceJustification
	}
	accepted, err := a.controller.Ask(reaching, t.tested, conformance.SpecOf(q.Category), o)
	var refused *agents.RefusedError
	switch {
	case errors.As(err, &refused):
		q.Why = "the gateway refused to ask it: " + string(refused.Code)
		t.Out.Talkf("category %d: %s", q.Category, q.Why)
		return nil
	case err != nil:
		return meshdir.Failure(err)
	}
	q.Query = accepted.QueryID
	t.Out.Talkf("category %d: asked, for %s", q.Category, cli.Bits(accepted.NominalBits))
	waiting, cancel := context.WithTimeout(ctx, t.flags.patience.Value)
	defer cancel()
	for {
		if d := a.take(q.Query); d != nil {
			q.Delivery = d
			if d.Outcome != bcp.Held || q.Category < 3 {
				return nil
			}
			t.Out.Talkf("category 3: it waits for a person; bcpmesh approvals watch")
		}
		select {
		case <-a.arrived:
		case <-waiting.Done():
			return ctx.Err()
		}
	}
}

// controller pushes to a Controller as its Reader.
func (t *runningTest) controller(ctx context.Context) (conformance.Report, error) {
	if t.audit == nil {
		report := t.judge(conformance.Seen{})
		if err := showConformance(t.Program, report); err != nil {
			return report, err
		}
		return report, (&cli.Failure{Code: cli.ExitPartly, Message: "a reader sees nothing of what its controller does: nothing was pushed, and nothing spent"}).
			WithHint("--auditor FILE, the creds of an auditor, shows what the mesh records")
	}
	reader := agents.NewReader(t.peer.Connection)
	listed := make(chan []bcp.ActiveSubscription, 1)
	reader.OnSubscriptions(func(list []bcp.ActiveSubscription) {
		select {
		case listed <- list:
		default:
		}
	})
	if err := reader.Start(ctx); err != nil {
		return conformance.Report{}, meshdir.Failure(err)
	}
	defer func() { _ = reader.Stop(ctx) }() // it has no handler at work
	var list []bcp.ActiveSubscription
	select {
	case list = <-listed:
	case <-time.After(conformanceReach):
		return conformance.Report{}, cli.Failf("the mesh does not say what %s may push", t.peer.Name).WithHint("does --encoding match its definition?")
	case <-ctx.Done():
		return conformance.Report{}, ctx.Err()
	}
	var names []string
	for i := range list {
		if name := string(list[i].Controller); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := t.choose(names); err != nil {
		return conformance.Report{}, err
	}
	samples, err := t.samples(list)
	if err != nil {
		return conformance.Report{}, err
	}
	if err := t.arrived(ctx); err != nil {
		return conformance.Report{}, err
	}
	var texts []string
	var cost bcp.Bits
	for _, s := range samples {
		texts, cost = append(texts, fmt.Sprintf("%s %s", s.id, s.answer)), cost+s.price
	}
	if err := t.spend(ctx, fmt.Sprintf("%s gets, and takes for real: %s; for %s of %s", t.tested, strings.Join(texts, ", "), cli.Bits(cost), cli.ChannelName(t.tested, t.peer.Name))); err != nil {
		return conformance.Report{}, err
	}
	pushed, err := t.push(ctx, reader, samples)
	if err != nil {
		return conformance.Report{}, err
	}
	seen := conformance.Seen{Role: t.flags.role, Agent: t.tested, Peer: t.peer.Name}
	recorded := func() bool {
		if d := t.audit.newest(); d.Kind == bcp.KindPush && d.Reader == seen.Peer && d.Controller == seen.Agent && d.Verdict == bcp.Accept {
			pushed--
		}
		return pushed <= 0
	}
	acknowledged := func() bool {
		seen.Records = t.audit.records
		return seen.Unacknowledged() == 0
	}
	if pushed > 0 {
		err = t.audit.follow(ctx, conformanceReach, recorded)
	}
	seen.Waited = len(t.audit.records)
	if err == nil && !acknowledged() {
		err = t.audit.follow(ctx, t.flags.patience.Value, acknowledged)
	}
	if err == nil {
		err = t.audit.follow(ctx, conformanceQuiet, never)
	}
	return t.judge(seen), err
}

// never is for records that should not come.
func never() bool { return false }

// push pushes samples and returns how many were delivered. It ends where the
// budget does.
func (t *runningTest) push(ctx context.Context, reader *agents.Reader, samples []sample) (delivered int, err error) {
	reaching, cancel := context.WithTimeout(ctx, conformanceReach)
	defer cancel()
	for _, s := range samples {
		result, err := reader.Push(reaching, t.tested, s.id, s.answer, agents.PushOptions{})
		var refused *agents.RefusedError
		switch {
		case errors.As(err, &refused):
			t.Out.Talkf("%s: refused: %s", s.id, refused.Code)
			if refused.Code == bcp.BudgetExhausted {
				return delivered, nil
			}
		case err != nil:
			return delivered, meshdir.Failure(err)
		default:
			t.Out.Talkf("%s: %s", s.id, result.Status)
			if result.Status == bcp.StatusDelivered {
				delivered++
			}
		}
	}
	return delivered, nil
}
