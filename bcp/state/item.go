package state

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// itemState is what waits for a person.
type itemState struct {
	bcp.Item
	subscription  bcp.SubscriptionID // but a proposed one, which is its Controller's word and not for records
	counted       bool               // against max_pending_approvals
	content       []byte             `msgpack:"-"` // what approving releases: the canonical answer, or the spec of an escalation
	justification string
	carries       bcp.Bits     // what the justification can
	client        bcp.ClientID `msgpack:"-"` // of a push
}

// decidedItem is the memory of an item that no longer waits.
type decidedItem struct {
	id   bcp.ItemID
	at   int64
	code bcp.Code // what a later decision hears
	// content is that of a proposal that was approved, for this channel.
	content []byte `msgpack:"-"`
	channel bcp.ChannelKey
}

// Items returns what waits for a person, oldest first.
func (s *State) Items() []bcp.Item {
	return s.itemsWhere(func(it bcp.Item) bool { return s.channels[it.Channel()] != nil }, func(*bcp.RunItem) bool { return true })
}

// itemsWhere returns the items of channels and of runs for which these hold.
func (s *State) itemsWhere(ofChannel func(bcp.Item) bool, ofRun func(*bcp.RunItem) bool) []bcp.Item {
	items := make([]bcp.Item, 0, len(s.items))
	for _, it := range s.items {
		if ofChannel(it.Item) {
			items = append(items, it.Item)
		}
	}
	runItems := s.runs.Items()
	for i := range runItems {
		if ofRun(&runItems[i]) {
			items = append(items, runItems[i].Item)
		}
	}
	slices.SortFunc(items, func(a, b bcp.Item) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	return items
}

// findItem returns an item that somebody may decide: not one of a past channel, which expires.
func (s *State) findItem(id bcp.ItemID) *itemState {
	if it := s.items[id]; it != nil && s.channels[it.Channel()] != nil {
		return it
	}
	return nil
}

// itemValidator returns what judged an item's content, nil where the definitions
// of today do not have it any more.
func (s *State) itemValidator(it *itemState) *bcp.Validator {
	if it.Query != "" {
		if q := s.queries[it.Query]; q != nil {
			return q.validator
		}
		return nil
	}
	if it.Kind == bcp.ItemProposal {
		return nil
	}
	return s.channels[it.Channel()].subscriptions[it.Subscription]
}

// goneItem says why an item does not wait.
func (s *State) goneItem(id bcp.ItemID, now int64) bcp.Code {
	for _, gone := range s.decided {
		if gone.id == id && now-gone.at < clientMemory {
			return gone.code
		}
	}
	return bcp.ItemNotFound
}

// parseProposal reads the content of an item that is a proposal.
func parseProposal(content []byte) (p bcp.Proposal, ok bool) {
	err := json.Unmarshal(content, &p, json.RejectUnknownMembers(true))
	return p, err == nil
}
