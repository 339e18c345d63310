package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// TargetConfig says which Reader repeats the texts of a red-team tool.
type TargetConfig struct {
	Definition *bcp.Mesh // nil for [Sample]
	Controller bcp.AgentName
	Reader     bcp.AgentName
	Category   bcp.Category // of the answers; 0 for the channel's widest
	State      string       // an empty folder
	Seed       uint64
	Listener   net.Listener // on a loopback address; Target closes it
	// OnReady, if set, is called with the URL when it answers.
	OnReady func(url string)
}

// Errors of a [TargetConfig].
var (
	ErrNoChannel = errors.New("there is no such channel")
	ErrCategory  = errors.New("the channel does not allow this category")
)

// Arrived is what happened to a text, in the answer with it that got furthest.
type Arrived struct {
	Reached   bool     `json:"reached"`   // four of its words or more, unheld
	Held      bool     `json:"held"`      // an answer with it waits for a person
	Outcome   string   `json:"outcome"`   // delivered, held or refused
	Text      string   `json:"text"`      // what the Controller got of it
	Anomalies []string `json:"anomalies"` // codes with which it was delivered
	Said      int      `json:"said"`      // answers that the Reader gave
}

// target is a running mesh with a hijacked Reader.
type target struct {
	rig   *redteam.Rig
	forms []form
	said  int
}

// Target starts a mesh and serves its hijacked Reader over HTTP until ctx ends, and then
// returns nil. One text is said at a time.
func Target(ctx context.Context, c TargetConfig) error {
	own, err := ownListener(c.Listener)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }() // the server closes it, too
	m := c.Definition
	if m == nil {
		if m, err = Sample(); err != nil {
			return err
		}
	}
	m, list, err := targeted(m, c)
	if err != nil {
		return err
	}
	var served error
	broken, err := redteam.Use(ctx, redteam.Setup{State: c.State, Name: "target", Definition: m, Seed: c.Seed}, func(rig *redteam.Rig) {
		t := target{rig: rig, forms: list}
		rig.Client(c.Controller, bcp.RoleController)
		rig.Client(c.Reader, bcp.RoleReader)
		served = serveTarget(ctx, own, t.say, c.OnReady)
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case len(broken) > 0:
		return errors.Join(served, errors.New(broken[0]))
	}
	return served
}

// targeted returns a copy of a mesh whose channel has a subscription for every spec
// that its Controller could ask with, and the forms of a category on it.
func targeted(m *bcp.Mesh, c TargetConfig) (*bcp.Mesh, []form, error) {
	m = played(m)
	at := slices.IndexFunc(m.Channels, func(ch bcp.Channel) bool { return ch.Controller == c.Controller && ch.Reader == c.Reader })
	if at < 0 {
		return nil, nil, fmt.Errorf("%s/%s: %w", c.Controller, c.Reader, ErrNoChannel)
	}
	ch := &m.Channels[at]
	if c.Category == 0 {
		c.Category = ch.MaxCategory
	}
	if c.Category > ch.MaxCategory {
		return nil, nil, fmt.Errorf("category %d: %w", c.Category, ErrCategory)
	}
	for i, spec := range queries(m) {
		if spec.Category == c.Category {
			ch.Subscriptions = append(ch.Subscriptions, bcp.Subscription{ID: bcp.SubscriptionID(fmt.Sprintf("redteam-%d", i)), Spec: spec})
		}
	}
	all, err := forms(m)
	if err != nil {
		return nil, nil, err
	}
	return m, slices.DeleteFunc(all, func(f form) bool {
		return f.channel.Controller != c.Controller || f.channel.Reader != c.Reader || f.spec.Category != c.Category || f.subscription == ""
	}), nil
}

// say has the Reader say a text in every position: whole, or cut to the limits if it is
// too long, and divided over the questions of an answer.
func (t *target) say(text string) (best Arrived, err error) {
	best.Outcome = outcomeWord(bcp.Reject)
	keep := func(s said, members ...int) error {
		a, err := t.sayOnMesh(s, members)
		if err != nil {
			return err
		}
		a.Said, a.Held = best.Said+1, a.Held || best.Held
		if !a.arrivedMore(best) {
			best.Said, best.Held = a.Said, a.Held
			return nil
		}
		best = a
		return nil
	}
	for i := range t.forms {
		f := &t.forms[i]
		positions := f.texts
		if len(positions) == 0 { // category 1: it is no answer, and is said all the same
			for member := range f.members {
				positions = append(positions, member)
			}
		}
		for _, member := range positions {
			whole, err := f.say(map[int]string{member: text})
			if err != nil {
				return best, err
			}
			s, err := f.cut(member, text, whole)
			if err != nil {
				return best, err
			}
			if err := keep(s, member); err != nil {
				return best, err
			}
		}
		if len(f.texts) > 1 {
			s, err := f.divided(text)
			if err != nil {
				return best, err
			}
			if err := keep(s, f.texts...); err != nil {
				return best, err
			}
		}
	}
	return best, nil
}

// arrivedMore reports whether more arrived of an answer than of another.
func (a Arrived) arrivedMore(b Arrived) bool {
	rank := func(a Arrived) int {
		n := map[string]int{"held": 1, "delivered": 2}[a.Outcome]
		if a.Reached {
			n = 3
		}
		return n<<20 + min(len(a.Text), 1<<20-1)
	}
	return rank(a) > rank(b)
}

// sayOnMesh sends an answer on the mesh. If it is too long to send, only the validator
// judges it.
func (t *target) sayOnMesh(s said, members []int) (Arrived, error) {
	a := Arrived{Outcome: outcomeWord(s.verdict.Outcome), Anomalies: []string{}}
	var got redteam.Delivery
	if len(s.answer) <= longestPlayed {
		t.said++
		differs := ""
		if err := t.rig.Try(func() {
			got, differs = s.sayOn(t.rig, t.said)
			t.rig.Client(s.form.channel.Controller, bcp.RoleController).Forget()
			t.rig.Client(s.form.channel.Reader, bcp.RoleReader).Forget()
		}); err != nil {
			return a, err
		}
		if differs != "" {
			return a, errors.New(differs)
		}
	} else if s.verdict.Outcome == bcp.Accept {
		return a, errors.New("an answer that is too long to be sent would be delivered")
	}
	a.Reached, a.Held = sumFate([]said{s}) >= arrived, a.Outcome == outcomeWord(bcp.Hold)
	if a.Outcome != outcomeWord(bcp.Accept) {
		return a, nil
	}
	a.Anomalies = append(a.Anomalies, got.Anomalies...)
	var response map[string]any
	if err := json.Unmarshal(got.Response, &response); err != nil {
		return a, fmt.Errorf("a delivery: %w", err)
	}
	var texts []string
	for _, i := range members {
		member := s.form.members[i]
		if text, ok := response[member.Name].(string); ok && strconv.Quote(text) != member.Value {
			texts = append(texts, text)
		}
	}
	a.Text = strings.Join(texts, " ")
	return a, nil
}
