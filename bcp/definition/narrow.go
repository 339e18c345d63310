package definition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Narrowed is a proposal to narrow a channel, as a file has it. Subscriptions that stay as
// they are need not be in it.
type Narrowed struct {
	Controller     bcp.AgentName              `json:"controller"`
	Reader         bcp.AgentName              `json:"reader"`
	MaxCategory    bcp.Category               `json:"max_category"`
	Budget         bcp.Bits                   `json:"budget_bits"`
	CapacityBudget bcp.Bits                   `json:"capacity_budget_bits,omitzero"`
	Subscriptions  []bcp.ProposedSubscription `json:"subscriptions,omitempty"`
}

// NarrowedOf is what makes the second channel of the first.
func NarrowedOf(was, would bcp.Channel) Narrowed {
	n := Narrowed{Controller: would.Controller, Reader: would.Reader, MaxCategory: would.MaxCategory, Budget: would.Budget, CapacityBudget: would.CapacityBudget}
	for i, sub := range would.Subscriptions {
		if !sameSubscription(was.Subscriptions[i], sub) {
			n.Subscriptions = append(n.Subscriptions, bcp.ProposedOf(sub))
		}
	}
	return n
}

// Over returns a channel as the proposal has it. Whether that is narrower is not looked at.
func (n *Narrowed) Over(c bcp.Channel) (bcp.Channel, error) {
	c.MaxCategory, c.Budget, c.CapacityBudget = n.MaxCategory, n.Budget, n.CapacityBudget
	c.Subscriptions = slices.Clone(c.Subscriptions)
	for i := range n.Subscriptions {
		sub, err := n.Subscriptions[i].Subscription()
		if err != nil {
			return c, err
		}
		at := slices.IndexFunc(c.Subscriptions, func(s bcp.Subscription) bool { return s.ID == sub.ID })
		if at < 0 {
			return c, fmt.Errorf("the channel has no subscription %s", quote(string(sub.ID)))
		}
		c.Subscriptions[at] = sub
	}
	return c, nil
}

// Narrow returns the file of the controller with a channel's subscriptions, max_category
// and budgets as want has them, and its path. Only what differs is written anew: a
// subscription whole, with its comments in front, and a limit in its place. The edited files
// load and say that and nothing else, or it is an error; whether it is narrower is not
// looked at.
func Narrow(files map[string][]byte, want bcp.Channel) (path string, edited []byte, err error) {
	return editChannel(files, want.ChannelKey, func(e *channelEdit, was bcp.Channel) {
		if len(was.Subscriptions) != len(want.Subscriptions) {
			e.err = ErrNoEntry
			return
		}
		for i := range want.Subscriptions {
			if !sameSubscription(was.Subscriptions[i], want.Subscriptions[i]) {
				e.subscription(want.Subscriptions[i])
			}
		}
		e.limit("max_category", int64(was.MaxCategory), int64(want.MaxCategory))
		e.limit("capacity_budget_bits", int64(was.CapacityBudget/bcp.Bit), int64(want.CapacityBudget/bcp.Bit))
		e.limit("budget_bits", int64(was.Budget/bcp.Bit), int64(want.Budget/bcp.Bit))
	}, func(_, now bcp.Channel) bool {
		return now.MaxCategory == want.MaxCategory && now.Budget == want.Budget && now.CapacityBudget == want.CapacityBudget &&
			slices.EqualFunc(now.Subscriptions, want.Subscriptions, sameSubscription)
	})
}

func (e *channelEdit) subscription(sub bcp.Subscription) {
	for _, item := range e.node.value("subscriptions").items {
		if item.value("id").text != string(sub.ID) {
			continue
		}
		dash, ok := dashOf(e.lines, item)
		if !ok {
			e.err = ErrStyle
			return
		}
		from := item.position.line - 1
		to := lastLine(e.lines, from, dash+1) + 1 // up to the next dash
		var fresh []string
		for _, line := range e.lines[from:to] {
			if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "#") {
				fresh = append(fresh, strings.Repeat(" ", dash)+comment)
			}
		}
		proposed := bcp.ProposedOf(sub)
		e.edits = append(e.edits, lineEdit{from, to, append(fresh, listed(dash, &proposed)...)})
		return
	}
	e.err = ErrNoEntry
}

// limit writes a number in the place of another, or after the entry's role.
func (e *channelEdit) limit(key string, was, would int64) {
	if was == would || e.err != nil {
		return
	}
	text := strconv.FormatInt(would, 10)
	if v := e.node.value(key); v.kind != 0 {
		line := e.lines[v.line-1]
		rest := line[min(v.column-1, len(line)):]
		end := strings.IndexAny(rest+" ", " \t\r,}#")
		e.edits = append(e.edits, lineEdit{v.line - 1, v.line, []string{line[:len(line)-len(rest)] + text + rest[end:]}})
		return
	}
	first, role := e.node.entries[0].position, e.node.value("role")
	if !blockStart(e.lines[first.line-1], first.column) {
		e.err = ErrStyle
		return
	}
	e.edits = append(e.edits, lineEdit{role.line, role.line, []string{strings.Repeat(" ", first.column-1) + key + ": " + text}})
}
