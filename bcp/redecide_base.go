package bcp

import (
	"github.com/go-json-experiment/json"
)

// NewRedeciderBehind returns one that begins with the first decision of a
// truncated journal, behind the checkpoint of its base. What is in front is
// history that the base stands for, as it does for a gateway: it fails with
// [ErrDefinitions] where [RestoreBase] does.
func NewRedeciderBehind(c Config, base []byte) (*Redecider, error) {
	saved, err := readCheckpoint(base)
	if err != nil {
		return nil, err
	}
	s, err := RestoreBase(c, base)
	if err != nil {
		return nil, err
	}
	r := redeciderOf(s)
	// A gateway cancels the queries that it would not ask, or not at this price;
	// here their answers are judged all the same, unless their session had ended.
	for i := range saved.Open {
		from := &saved.Open[i]
		q := s.queries[from.ID]
		if q == nil || q.validator != nil || !from.Asked {
			continue
		}
		ask := redecidedAsk{seq: q.accepted, cancelled: from.Cancelled}
		var spec Spec
		if err = json.Unmarshal(q.spec, &spec, json.RejectUnknownMembers(true)); err == nil {
			ask.validator, _, err = s.validator(s.channels[q.channel], spec)
		}
		ask.refused = err != nil
		r.asks[from.ID] = ask
	}
	return r, nil
}
