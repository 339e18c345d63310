package state

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Package contract judges agents of other organisations. Its verdict comes here: it is
// recorded, and lasts until it ends or is revoked. Acceptance gives nothing but that: no
// budget, no taint, no approval.

// RoleVerdict is what package contract found out about an agent of another organisation.
// The zero value accepts nothing.
type RoleVerdict struct {
	contract.Acceptance
	Organisation string
	Digest       bcp.Digest      // of the statement
	List         RoleRevocations // of its organisation, by which it was judged
}

// RoleRevocations is a list whose signature was checked. The zero value is of nobody.
type RoleRevocations struct {
	Organisation string
	contract.Revocations
}

// roleKey names an acceptance.
type roleKey struct {
	agent       bcp.AgentName
	requirement string
}

// acceptedRole is an acceptance, while it lasts.
type acceptedRole struct {
	until        int64
	organisation string
	signer       bcp.Digest
	required     bcp.Digest
	serial       bcp.Digest
	key          string // of the user that proved itself
}

// roleState is what is known of the agents of others.
type roleState struct {
	accepted map[roleKey]acceptedRole
	numbers  map[string]int64 // of the newest list of each organisation
}

// roleShown reports whether an agent is accepted for a requirement at a moment: by an
// attestation that a key signed which is still trusted. No requirement needs nothing.
func (s *State) roleShown(agent bcp.AgentName, requirement string, now int64) bool {
	if requirement == "" {
		return true
	}
	a, ok := s.roles.accepted[roleKey{agent, requirement}]
	r, known := s.mesh.Requirement(requirement)
	return ok && known && now < a.until && a.required == r.Digest() && slices.ContainsFunc(s.mesh.Trust, func(t bcp.Trust) bool {
		return t.Organisation == a.organisation && t.Key == a.signer && (t.Until.IsZero() || now < t.Until.UnixNano())
	})
}

// rolesShown reports whether both ends of a channel are what the other demands.
func (s *State) rolesShown(ch *bcp.Channel, now int64) bool {
	return s.roleShown(ch.Controller, ch.ControllerRole, now) && s.roleShown(ch.Reader, ch.ReaderRole, now)
}

// MayRun reports whether a requester of a kernel is accepted for all that is required of it.
func (s *State) MayRun(kernel, requester bcp.AgentName, now time.Time) bool {
	i := slices.IndexFunc(s.mesh.Kernels, func(k bcp.KernelRights) bool { return k.Kernel == kernel })
	return i < 0 || !slices.ContainsFunc(s.mesh.Kernels[i].Roles[requester], func(name string) bool { return !s.roleShown(requester, name, now.UnixNano()) })
}

// DecideRoleMissing refuses a run of a requester that has not shown its roles.
func (s *State) DecideRoleMissing(m bcp.Moment, requester bcp.AgentName, body []byte) bcp.Decision {
	d, heard := s.fromAgent(m, bcp.KindDeclare, requester, bcp.RoleController, body)
	if !heard {
		return d
	}
	d.Declare = &bcp.DeclareChange{Act: bcp.DeclareRequired}
	return refuse(d, bcp.CheckRole, bcp.RoleRequired)
}

// LastRevocations returns the number of the newest list of an organisation that was seen.
func (s *State) LastRevocations(organisation string) int64 { return s.roles.numbers[organisation] }

// DecideDeclare records a verdict about an agent. Key is the user that it is connected
// as, which had to prove itself.
func (s *State) DecideDeclare(m bcp.Moment, agent bcp.AgentName, role bcp.Role, requirement, key string, body []byte, v RoleVerdict) bcp.Decision {
	d, heard := s.fromAgent(m, bcp.KindDeclare, agent, role, body)
	if !heard {
		return d
	}
	r, known := s.mesh.Requirement(requirement)
	d.Declare = &bcp.DeclareChange{Act: bcp.DeclareJudged, Why: string(v.Code), Statement: v.Digest}
	if known {
		d.Declare.Requirement, d.Declare.Required = requirement, r.Digest()
	}
	if s.trusts(v.Organisation) {
		d.Declare.Organisation = v.Organisation
	}
	if list := &v.List; list.Organisation == d.Declare.Organisation && s.newer(list) {
		d.Declare.Number, d.Declare.Ended = list.Number, s.endedBy(list)
	}
	if !known || !v.Accepted || v.Code != "" || d.Declare.Organisation == "" || s.older(&v.List) || v.Until.UnixNano() <= d.Time {
		d.Declare.Why = cmp.Or(string(v.Code), "malformed")
		return refuse(d, bcp.CheckRole, bcp.NotPermitted)
	}
	d.Verdict, d.Key, d.Declare.Until = bcp.Accept, key, v.Until.UnixNano()
	d.Declare.Signer, d.Declare.Serial = v.Signer, sha256.Sum256([]byte(v.Statement.Serial))
	return d
}

// DecideHeard records what an agent of another organisation told about one of ours. It
// changes nothing.
func (s *State) DecideHeard(m bcp.Moment, agent bcp.AgentName, role bcp.Role, about bcp.AgentName, body []byte, v contract.Acceptance) bcp.Decision {
	d, heard := s.fromAgent(m, bcp.KindDeclare, agent, role, body)
	if !heard {
		return d
	}
	d.Verdict, d.Target, d.Declare = bcp.Accept, about, &bcp.DeclareChange{Act: bcp.DeclareHeard, Why: string(v.Code)}
	if v.Accepted {
		d.Declare.Until = v.Until.UnixNano()
	}
	return d
}

// DecideRevocations takes a list of an organisation, whoever brought it: its signature is
// checked. It is false for one that changes nothing; an older one is refused.
func (s *State) DecideRevocations(m bcp.Moment, agent bcp.AgentName, role bcp.Role, body []byte, list RoleRevocations) (bcp.Decision, bool) {
	d, heard := s.next(m, bcp.KindDeclare), true
	if d.Agent, d.Role = agent, role; role != bcp.RoleOperator {
		d, heard = s.fromAgent(m, bcp.KindDeclare, agent, role, body)
	}
	d.Declare = &bcp.DeclareChange{Act: bcp.DeclareRevocations}
	switch {
	case !heard:
		return d, false
	case !s.trusts(list.Organisation) || s.older(&list):
		return refuse(d, bcp.CheckRole, bcp.NotPermitted), true
	case !s.newer(&list):
		d.Verdict = bcp.Accept
		return d, false
	}
	d.Verdict, d.Declare.Organisation, d.Declare.Number = bcp.Accept, list.Organisation, list.Number
	d.Declare.Ended = s.endedBy(&list)
	return d, true
}

func (s *State) older(list *RoleRevocations) bool {
	return list.Number < s.roles.numbers[list.Organisation]
}

func (s *State) newer(list *RoleRevocations) bool {
	return list.Number > s.roles.numbers[list.Organisation]
}

// endedBy returns whose acceptance a list ends, sorted.
func (s *State) endedBy(list *RoleRevocations) (ended []string) {
	for key, a := range s.roles.accepted {
		revoked := slices.Contains(list.Keys, a.key) || slices.ContainsFunc(list.Serials, func(serial string) bool { return a.serial == sha256.Sum256([]byte(serial)) })
		if a.organisation == list.Organisation && revoked {
			ended = append(ended, string(key.agent))
		}
	}
	slices.Sort(ended)
	return slices.Compact(ended)
}

func (s *State) trusts(organisation string) bool {
	return organisation != "" && slices.ContainsFunc(s.mesh.Trust, func(t bcp.Trust) bool { return t.Organisation == organisation })
}

// applyDeclare keeps what a decision says about roles.
func (s *State) applyDeclare(d *bcp.Decision) error {
	c := d.Declare
	if c == nil {
		return errUnfounded
	}
	if c.Organisation != "" && c.Number > s.roles.numbers[c.Organisation] {
		s.roles.numbers[c.Organisation] = c.Number
	}
	for key, a := range s.roles.accepted {
		if slices.Contains(c.Ended, string(key.agent)) && a.organisation == c.Organisation {
			delete(s.roles.accepted, key)
		}
	}
	key := roleKey{d.Agent, c.Requirement}
	switch {
	case c.Act == bcp.DeclareJudged && d.Verdict == bcp.Accept:
		s.roles.accepted[key] = acceptedRole{c.Until, c.Organisation, c.Signer, c.Required, c.Serial, d.Key}
	case c.Act == bcp.DeclareJudged: // what was accepted before is not what is there now
		delete(s.roles.accepted, key)
	}
	return nil
}
