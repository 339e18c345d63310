package state

import "github.com/bcpmesh/bcpmesh/bcp"

// DecideCredential records what was done with keys or credentials. Who joined did
// it itself; the rest is the operator's.
func (s *State) DecideCredential(m bcp.Moment, act bcp.CredentialAct, agent bcp.AgentName, key string, c bcp.CredentialChange) bcp.Decision {
	d := s.next(m, bcp.KindCredential)
	d.Agent, d.Role, d.Event, d.Target, d.Key, d.Credential = bcp.Operator, bcp.RoleOperator, string(act), agent, key, &c
	if act == bcp.CredentialJoined || act == bcp.CredentialRefused {
		d.Agent, d.Role = agent, c.Role
	}
	return d
}

// DecideConnection records that a connection of an agent or a person began or
// ended: by the public key of its credentials, and from which host.
func (s *State) DecideConnection(m bcp.Moment, kind bcp.DecisionKind, agent bcp.AgentName, role bcp.Role, key, host string) bcp.Decision {
	d := s.DecideEvent(m, kind, agent, role, 0)
	d.Key, d.Note = key, host
	return d
}

// DecideExpiring records that credentials expire soon.
func (s *State) DecideExpiring(m bcp.Moment, agent bcp.AgentName, role bcp.Role, key string) bcp.Decision {
	d := s.next(m, bcp.KindAlert)
	d.Agent, d.Role, d.Event, d.Key = agent, role, string(bcp.AlertExpiring), key
	return d
}

// DecideShared records that credentials are used in two places at once, with the
// hosts.
func (s *State) DecideShared(m bcp.Moment, agent bcp.AgentName, role bcp.Role, key, hosts string) bcp.Decision {
	d := s.next(m, bcp.KindAlert)
	d.Agent, d.Role, d.Event, d.Key, d.Note = agent, role, string(bcp.AlertShared), key, hosts
	return d
}
