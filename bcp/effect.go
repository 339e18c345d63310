package bcp

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// What runs of kernels wait for people for: a call that a rule asks about, and one that
// may have been made. People decide about both as about anything else that is held, with
// a signature that is of this one call (the kernel's page, K10).

// Effect is a call of a run as a person judges it. Its arguments are the view's Content.
type Effect struct {
	Run       string    `json:"run_id"`
	Requester AgentName `json:"requester"`
	Grant     string    `json:"grant"`
	Step      string    `json:"step"` // the full path in the plan, the planner's own words
	Service   AgentName `json:"service,omitempty"`
	Tool      string    `json:"tool"`
	// Description of the tool is the operator's.
	Description string `json:"description,omitempty"`
	Level       string `json:"effect_level,omitempty"`
	Attempt     int    `json:"attempt,omitzero"` // how often it was sent, if it was
	// Rules are the ids of those that ask.
	Rules     []string         `json:"rules,omitempty"`
	Arguments []EffectArgument `json:"arguments,omitempty"`
	// Result is the JSON Schema of what the tool returns.
	Result jsontext.Value `json:"result_schema,omitzero"`
	// Changed says that the definitions of today have no such call: it can only be
	// refused.
	Changed bool `json:"changed,omitzero"`
}

// EffectArgument tells where an argument of a call comes from.
type EffectArgument struct {
	Name string `json:"name"`
	// Tainted says that content chose it, or what it is made of.
	Tainted    bool `json:"tainted"`
	ThirdParty bool `json:"third_party"`
	// Influence is how many bits of it content can have chosen, in words: a number, or
	// unbounded.
	Influence string `json:"influence"`
}

// RunItem is a call of a run that waits for a person.
type RunItem struct {
	Item
	Approvers []AgentName
	// Content is the call in canonical JSON: run_id, key, tool, arguments. An approval
	// is of these bytes.
	Content []byte
	Effect  Effect
}

func (it *RunItem) view() ItemView {
	return ItemView{Item: it.Item, Content: it.Content, SHA256: sha256.Sum256(it.Content), Effect: &it.Effect,
		Source: Source{Agent: it.Effect.Service, Description: it.Effect.Description, Taint: it.Taint}}
}

// runItem returns what of a run waits for a person under this id.
func (s *State) runItem(id ItemID) (RunItem, bool) {
	if s.runs == nil {
		return RunItem{}, false
	}
	return s.runs.Item(id)
}

// mayDecideRun reports whether a person is an approver of the item's kernel.
func (s *State) mayDecideRun(approver AgentName, it *RunItem) bool {
	return s.agents[approver] == nil && slices.Contains(it.Approvers, approver)
}

// effectBytes returns the bytes that an act about a call of a run is about: the call
// itself, the reason why it is refused, or its result, where it was made after all.
func (s *State) effectBytes(it *RunItem, act Act, a *Approval) ([]byte, Code) {
	switch {
	case act == RejectItem && len(a.Response) == 0:
		return []byte(a.Reason), ""
	case a.Reason != "":
		return nil, Malformed
	case act == Approve && len(a.Response) == 0:
		return it.Content, ""
	case act == EditItem && it.Kind == ItemInDoubt:
		if result, ok := s.runs.Result(it.ID, a.Response); ok {
			return result, ""
		}
	}
	return nil, Malformed
}

// previewResult is [State.Preview] of a call that may have been made: what a person says
// that it returned.
func (s *State) previewResult(approver AgentName, it *RunItem, a *Approval) (EditPreview, Refusal) {
	if !s.mayDecideRun(approver, it) {
		return EditPreview{}, RefusalOf(NotPermitted)
	}
	content, code := s.effectBytes(it, EditItem, a)
	if code != "" {
		return EditPreview{}, Refusal{Error: Malformed, Detail: `expected {"result": …} as the tool's output_schema has it, for a call that is in doubt`}
	}
	return EditPreview{Item: it.ID, Content: content, SHA256: sha256.Sum256(content)}, Refusal{}
}

// decideRunItem is [State.DecideApproval] of a call of a run. One that counts is the
// decision of its run.
func (s *State) decideRunItem(d Decision, m Moment, it *RunItem, key string, act Act, a *Approval) Decision {
	d.Controller, d.Reader = it.Controller, it.Reader
	if !d.At().Before(it.Deadline) || !d.At().Before(a.Expires) {
		return d.refuse(CheckInTime, ItemExpired)
	}
	content, code := s.effectBytes(it, act, a)
	var run RunMessage
	stands := func() bool {
		m.Now = s.JournalTime(m)
		run = s.runs.DecideItem(m, it.ID, act, d.Agent, content)
		return run.Change.Code == ""
	}
	if check, refused := s.judgeApproval(&it.Item, s.mayDecideRun(d.Agent, it), stands, key, act, a, content, code); refused != "" {
		return d.refuse(check, refused)
	}
	made := s.DecideRun(m, run)
	made.Agent, made.Role, made.Event, made.Item, made.RawBytes, made.Note = d.Agent, d.Role, d.Event, it.ID, d.RawBytes, a.Reason
	made.signed(key, a)
	return made
}

// judgeApproval judges whether an act about an item counts: its bytes, who acts, the
// signature, and whether the item stands.
func (s *State) judgeApproval(it *Item, may bool, stands func() bool, key string, act Act, a *Approval, content []byte, code Code) (Check, Code) {
	signature, err := base64.StdEncoding.DecodeString(a.Signature)
	switch signed := err == nil && s.verify != nil; {
	case code == "" && sha256.Sum256(content) != a.SHA256:
		return CheckDigest, DigestMismatch
	case !may:
		return CheckApprover, NotPermitted
	case !signed || !s.verify(key, Statement(it.ID, act, a.SHA256, a.Expires), signature):
		return CheckSignature, NotPermitted
	case code == "" && !stands():
		return CheckStands, NotPermitted
	case code != "" || a.Expires.After(it.Deadline) || a.Expires.Nanosecond() != 0:
		return CheckApproval, Malformed
	}
	return 0, ""
}

// signed notes what makes an approval count.
func (d *Decision) signed(key string, a *Approval) {
	signature, _ := base64.StdEncoding.DecodeString(a.Signature) // judged before
	d.Key, d.Released, d.SignedUntil, d.Signature, d.Unsealed = key, a.SHA256, a.Expires.UnixNano(), signature, true
}
