package contentguard

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// judged makes a judgement of a function that takes the members of a case.
func judged[In any](judge func(in In) (any, guard.Code)) judgement {
	return func(_ context.Context, raw jsontext.Value) (any, guard.Code) {
		var in In
		if err := json.Unmarshal(raw, &in, caseOptions); err != nil {
			return nil, unreadableCase
		}
		return judge(in)
	}
}

type textResult struct {
	Text string `json:"text"`
}

type redactCase struct {
	Text caseText `json:"text"`
	Set  string   `json:"set"`
}

func judgeRedact(in redactCase) (any, guard.Code) {
	set := guard.All
	if in.Set != "" {
		var err error
		if set, err = guard.ParseSet(in.Set); err != nil {
			return nil, unknownSet
		}
	}
	return textResult{guard.Redact(string(in.Text), set)}, ""
}

type textCase struct {
	Text caseText `json:"text"`
}

func judgeClean(in textCase) (any, guard.Code) { return textResult{guard.Clean(string(in.Text))}, "" }

type taintedResult struct {
	Tainted bool `json:"tainted"`
}

func judgeTainted(in textCase) (any, guard.Code) {
	return taintedResult{guard.IsTainted(string(in.Text))}, ""
}

type fenceCase struct {
	Text   caseText `json:"text"`
	Source caseText `json:"source"`
}

type fenceResult struct {
	Text    string `json:"text"`
	Tainted bool   `json:"tainted"`
}

func judgeFence(in fenceCase) (any, guard.Code) {
	fenced, err := guard.Fence(string(in.Text), guard.Source(in.Source))
	if err != nil {
		return nil, unknownSource
	}
	return fenceResult{fenced.String(), guard.IsTainted(fenced.String())}, ""
}

type egressCase struct {
	URL   caseURL    `json:"url"`
	Allow []caseText `json:"allow"`
}

func (c egressCase) policy() guard.Policy {
	policy, _ := guard.ParsePolicy(entryTexts(c.Allow))
	return policy
}

func entryTexts(list []caseText) []string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = string(t)
	}
	return texts
}

type egressResult struct {
	Allowed   bool       `json:"allowed"`
	Canonical string     `json:"canonical,omitzero"`
	Code      guard.Code `json:"code,omitzero"`
}

func judgeEgress(in egressCase) (any, guard.Code) {
	return checkEgress(string(in.URL), in.policy()), ""
}

func checkEgress(url string, policy guard.Policy) egressResult {
	target, err := guard.Check(url, policy)
	if err != nil {
		return egressResult{Code: fetchCode(err)}
	}
	return egressResult{Allowed: true, Canonical: target.String()}
}

type hostsCase struct {
	Env *caseText `json:"env"`
}

type hostsResult struct {
	Allow   []string `json:"allow"`
	Invalid []string `json:"invalid"`
}

func judgeHosts(in hostsCase) (any, guard.Code) {
	if in.Env == nil {
		return hostsResult{}, ""
	}
	return checkHosts(string(*in.Env)), ""
}

func checkHosts(value string) hostsResult {
	allow := guard.SplitHosts(value)
	_, invalid := guard.ParsePolicy(allow)
	return hostsResult{allow, invalid}
}

type addressCase struct {
	Address caseText `json:"address"`
}

type addressResult struct {
	Public bool `json:"public"`
}

func judgeAddress(in addressCase) (any, guard.Code) {
	return addressResult{guard.PublicText(string(in.Address))}, ""
}

type priceCase struct {
	Link   bool     `json:"link"`
	Starts uint64   `json:"start_urls"`
	Served []uint64 `json:"served"`
	URL    *caseURL `json:"url"`
}

type priceResult struct {
	NanoBits guard.NanoBits `json:"nano_bits"`
	Bytes    int            `json:"bytes,omitzero"`
}

func judgePrice(in priceCase) (any, guard.Code) {
	if in.Link || in.URL == nil {
		return priceResult{NanoBits: guard.LinkPrice(in.Starts, in.Served)}, ""
	}
	target, err := guard.ParseTarget(string(*in.URL))
	if err != nil {
		return nil, fetchCode(err)
	}
	price, length := guard.ComposedPrice(target)
	return priceResult{price, length}, ""
}
