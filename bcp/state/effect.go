package state

import (
	"crypto/sha256"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// mayDecideRun reports whether a person is an approver of the item's kernel.
func (s *State) mayDecideRun(approver bcp.AgentName, it *bcp.RunItem) bool {
	return s.agents[approver] == nil && slices.Contains(it.Approvers, approver)
}

// effectBytes returns the bytes that an act about a call or a question of a run is about:
// the call itself, the reason why it is refused, its result, where it was made after all,
// or the answer.
func (s *State) effectBytes(it *bcp.RunItem, act bcp.Act, a *bcp.Approval) ([]byte, bcp.Code) {
	switch {
	case act == bcp.RejectItem && len(a.Response) == 0:
		return []byte(a.Reason), ""
	case a.Reason != "":
		return nil, bcp.Malformed
	case act == bcp.Approve && len(a.Response) == 0 && it.Kind != bcp.ItemQuestion:
		return it.Content, ""
	case act == bcp.EditItem && it.Kind != bcp.ItemEffect:
		if result, ok := s.runs.Result(it.ID, a.Response); ok {
			return result, ""
		}
	}
	return nil, bcp.Malformed
}

// previewResult is [State.Preview] of a call that may have been made, or a question: what a
// person says that it returned, or answers.
func (s *State) previewResult(approver bcp.AgentName, it *bcp.RunItem, a *bcp.Approval) (bcp.EditPreview, bcp.Refusal) {
	if !s.mayDecideRun(approver, it) {
		return bcp.EditPreview{}, bcp.RefusalOf(bcp.NotPermitted)
	}
	content, code := s.effectBytes(it, bcp.EditItem, a)
	if code != "" {
		detail := `expected {"result": …} as the tool's output_schema has it, for a call that is in doubt`
		if it.Kind == bcp.ItemQuestion {
			detail = `expected {"answer": {…}} with an answer to each question, in its format`
		}
		return bcp.EditPreview{}, bcp.Refusal{Error: bcp.Malformed, Detail: detail}
	}
	return bcp.EditPreview{Item: it.ID, Content: content, SHA256: sha256.Sum256(content)}, bcp.Refusal{}
}

// decideRunItem is [State.DecideApproval] of a call of a run. One that counts is the
// decision of its run.
func (s *State) decideRunItem(d bcp.Decision, m bcp.Moment, it *bcp.RunItem, from bcp.Sender, act bcp.Act, a *bcp.Approval) bcp.Decision {
	d.Controller, d.Reader = it.Controller, it.Reader
	if !d.At().Before(it.Deadline) || !d.At().Before(a.Expires) {
		return refuse(d, bcp.CheckInTime, bcp.ItemExpired)
	}
	content, code := s.effectBytes(it, act, a)
	var c kernel.Change
	stands := func() bool {
		m.Now = s.JournalTime(m)
		c = s.runs.DecideItem(m, it.ID, act, d.Agent, a.Expires, content)
		return c.Code == ""
	}
	if check, refused := s.judgeApproval(&it.Item, s.mayDecideRun(d.Agent, it), stands, from, act, a, content, code); refused != "" {
		return refuse(d, check, refused)
	}
	made := s.DecideRun(m, &c, d.Agent, nil)
	made.Agent, made.Role, made.Event, made.Item, made.RawBytes, made.Note = d.Agent, d.Role, d.Event, it.ID, d.RawBytes, a.Reason
	signed(&made, from, a)
	return made
}

// judgeApproval judges whether an act about an item counts: its bytes, who acts, the
// signature, and whether the item stands.
func (s *State) judgeApproval(it *bcp.Item, may bool, stands func() bool, from bcp.Sender, act bcp.Act, a *bcp.Approval, content []byte, code bcp.Code) (bcp.Check, bcp.Code) {
	switch {
	case code == "" && sha256.Sum256(content) != a.SHA256:
		return bcp.CheckDigest, bcp.DigestMismatch
	case !may:
		return bcp.CheckApprover, bcp.NotPermitted
	case !s.signedApproval(from, a, act):
		return bcp.CheckSignature, bcp.NotPermitted
	case code == "" && !stands():
		return bcp.CheckStands, bcp.NotPermitted
	case code != "" || a.Expires.After(it.Deadline) || a.Expires.Nanosecond() != 0:
		return bcp.CheckApproval, bcp.Malformed
	}
	return 0, ""
}
