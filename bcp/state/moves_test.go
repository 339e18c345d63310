package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// An agent is in a journal with what it did, and with what became of its channels: not
// where somebody only names it. Whom the definitions do not have at all is nobody's.
//
// covers P4.5, BCP-34
func TestMoves(t *testing.T) {
	t.Parallel()
	mesh := func(shard int) *bcp.Mesh {
		return (&bcp.Mesh{Agents: []bcp.Agent{{Name: "boss", Shard: shard}, {Name: "clerk", Shard: shard}, {Name: "desk"}, {Name: "far", Shard: 1}}}).OfShard(0)
	}
	channel := func(d bcp.Decision) bcp.Decision {
		d.Controller, d.Reader = "boss", "clerk"
		return d
	}
	for name, c := range map[string]struct {
		of   bcp.Decision
		want string // of boss and clerk
	}{
		"nothing":                      {bcp.Decision{Kind: bcp.KindStart, Agent: bcp.Gateway}, ""},
		"a connection":                 {bcp.Decision{Kind: bcp.KindConnect, Agent: "boss", Role: bcp.RoleController}, "boss"},
		"the end of one":               {bcp.Decision{Kind: bcp.KindDisconnect, Agent: "clerk", Role: bcp.RoleReader}, "clerk"},
		"a person of its name":         {bcp.Decision{Kind: bcp.KindConnect, Agent: "boss", Role: bcp.RoleApprover}, ""},
		"an agent that is here":        {bcp.Decision{Kind: bcp.KindConnect, Agent: "desk", Role: bcp.RoleController}, ""},
		"an agent that is gone":        {bcp.Decision{Kind: bcp.KindConnect, Agent: "ghost", Role: bcp.RoleReader}, ""},
		"an ask":                       {channel(bcp.Decision{Kind: bcp.KindAsk, Agent: "boss", Role: bcp.RoleController, Verdict: bcp.Accept, Session: "s"}), "boss clerk"},
		"an ask at its gate":           {channel(bcp.Decision{Kind: bcp.KindAsk, Agent: "boss", Role: bcp.RoleController, Verdict: bcp.Hold, Session: "s"}), "boss clerk"},
		"a refused ask":                {channel(bcp.Decision{Kind: bcp.KindAsk, Agent: "boss", Role: bcp.RoleController, Verdict: bcp.Reject}), "boss"},
		"a refused ask of another":     {bcp.Decision{Kind: bcp.KindAsk, Agent: "desk", Role: bcp.RoleController, Controller: "desk", Reader: "clerk", Verdict: bcp.Reject}, ""},
		"a push":                       {channel(bcp.Decision{Kind: bcp.KindPush, Agent: "clerk", Role: bcp.RoleReader, Verdict: bcp.Accept}), "boss clerk"},
		"a refused push":               {channel(bcp.Decision{Kind: bcp.KindPush, Agent: "clerk", Role: bcp.RoleReader, Verdict: bcp.Reject}), "clerk"},
		"a session by a delivery":      {channel(bcp.Decision{Kind: bcp.KindBatch, Session: "s", SessionBegins: true, SessionByDelivery: true}), "boss"},
		"a session that is renewed":    {bcp.Decision{Kind: bcp.KindSession, Agent: bcp.Operator, Role: bcp.RoleOperator, Controller: "boss", Session: "s", Verdict: bcp.Accept}, "boss"},
		"a prompt":                     {bcp.Decision{Kind: bcp.KindPrompt, Agent: "clerk", Role: bcp.RoleReader}, "clerk"},
		"a violation":                  {bcp.Decision{Kind: bcp.KindViolation, Agent: "clerk", Role: bcp.RoleReader, Count: 3}, "clerk"},
		"taint that is reported":       {bcp.Decision{Kind: bcp.KindTaint, Agent: bcp.Operator, Role: bcp.RoleOperator, Target: "clerk", Verdict: bcp.Accept}, "clerk"},
		"taint that is refused":        {bcp.Decision{Kind: bcp.KindTaint, Agent: bcp.Operator, Role: bcp.RoleOperator, Target: "clerk", Verdict: bcp.Reject}, ""},
		"credentials of it":            {bcp.Decision{Kind: bcp.KindCredential, Agent: bcp.Operator, Role: bcp.RoleOperator, Target: "boss", Event: string(bcp.CredentialIssued)}, ""},
		"credentials that it made":     {bcp.Decision{Kind: bcp.KindCredential, Agent: "boss", Role: bcp.RoleController, Target: "boss", Event: string(bcp.CredentialJoined)}, ""},
		"an erasure of what never was": {channel(bcp.Decision{Kind: bcp.KindErase, Agent: bcp.Operator, Role: bcp.RoleOperator, Verdict: bcp.Accept}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.of.Seq = 7
			for shard, want := range map[int]string{0: "", 1: c.want} {
				moves := NewMovedAgents(mesh(shard))
				moves.Add(&bcp.Decision{Seq: 6, Kind: bcp.KindReload, Agent: bcp.Operator, Role: bcp.RoleOperator})
				moves.Add(&c.of)
				again := c.of
				again.Seq = 8
				moves.Add(&again)
				var got []string
				for agent, seq := range moves.found {
					got = append(got, string(agent))
					if seq != 7 {
						t.Errorf("%s is in it since decision %d", agent, seq)
					}
				}
				if slices.Sort(got); strings.Join(got, " ") != want {
					t.Errorf("on shard %d: in the journal of 0 are %v, want %q", shard, got, want)
				}
				if err := moves.Err(); errors.Is(err, bcp.ErrMoved) != (want != "") || err == nil != (want == "") {
					t.Errorf("on shard %d: %v", shard, err)
				}
			}
			whole := NewMovedAgents((&bcp.Mesh{Agents: []bcp.Agent{{Name: "boss", Shard: 1}}}))
			if whole.Add(&c.of); whole.Err() != nil {
				t.Errorf("as a whole: %v", whole.Err())
			}
		})
	}
	moves := NewMovedAgents(mesh(1))
	ask := channel(bcp.Decision{Seq: 7, Kind: bcp.KindAsk, Agent: "boss", Role: bcp.RoleController, Verdict: bcp.Accept})
	moves.Add(&ask)
	const want = "an agent keeps its shard: boss is on shard 1, and in the journal of shard 0 since decision 7, and so with 1 more; " +
		"leave it on shard 0 (shard: 0 in its definition), or give the agent on shard 1 another name"
	if err := moves.Err(); err == nil || err.Error() != want {
		t.Errorf("it says %v", err)
	}
}

// elsewhere is a mesh without some agents, which are on shard 1.
func elsewhere(names ...bcp.AgentName) *bcp.Mesh {
	m := richMesh()
	for i := range m.Agents {
		if slices.Contains(names, m.Agents[i].Name) {
			m.Agents[i].Shard = 1
		}
	}
	m.Agents = append(m.Agents, bcp.Agent{Name: "other", Encoding: bcp.JSON, Reader: true, Shard: 1})
	return m.OfShard(0)
}

// A state knows of agents that are on another shard now, from the whole journal; a
// checkpoint that cannot tell is refused. One that has nothing of them is as good as
// ever, also where the journal tells of their credentials and of erasures.
//
// covers P4.5, P11.1, BCP-34
func TestStateKnowsWhoMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, richMesh()).play(richHistory)
	whole, err := w.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []bcp.AgentName{"planner", "mail"} {
		moved := w.alike(t)
		moved.config.Mesh = elsewhere(name)
		state := moved.replay()
		if err := state.Moved(); !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), string(name)+" is on shard 1") {
			t.Errorf("%s: %v", name, err)
		}
		behind, err := state.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		for what, checkpoint := range map[string][]byte{"before": whole, "behind": behind} {
			for how, restore := range map[string]func(Config, []byte) (*State, error){"snapshot": Restore, "base": RestoreBase} {
				if _, err := restore(moved.config, checkpoint); !errors.Is(err, ErrDefinitions) {
					t.Errorf("%s: a %s of %s the move: %v", name, how, what, err)
				}
			}
		}
		gone := moved.alike(t)
		gone.config.Mesh = elsewhere(name)
		gone.config.Mesh.Elsewhere = nil
		if err := gone.replay().Moved(); err != nil {
			t.Errorf("%s is in no definition: %v", name, err)
		}
	}

	named := w.alike(t)
	named.reload(elsewhere())
	for _, agent := range []bcp.AgentName{"other", "ghost"} {
		named.commit(named.state.DecideCredential(named.moment(), bcp.CredentialIssued, agent, "UABC", bcp.CredentialChange{Number: 1}))
		erase, reasons := named.state.DecideErase(named.moment(), bcp.EraseRequest{Controller: agent, Reader: "other", Before: named.now.Add(-48 * time.Hour).Format(time.DateOnly)})
		if len(reasons) != 1 || !strings.Contains(reasons[0], "no channel "+string(agent)+"/other,") {
			t.Fatal(reasons)
		}
		erase.Verdict, erase.Check, erase.Code = bcp.Accept, 0, "" // as older versions recorded it
		named.commit(erase)
	}
	named.commit(named.state.DecideConnection(named.moment(), bcp.KindConnect, "other", bcp.RoleAuditor, "UABC", "127.0.0.1"))
	checkpoint, err := named.state.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	for what, make := range map[string]func() (*State, error){
		"the journal": func() (*State, error) { return named.replay(), nil },
		"a snapshot":  func() (*State, error) { return Restore(named.config, checkpoint) },
		"a base":      func() (*State, error) { return RestoreBase(named.config, checkpoint) },
	} {
		if state, err := make(); err != nil || state.Moved() != nil {
			t.Errorf("%s, where it was named alone: %v", what, err)
		}
	}
	named.commit(named.state.DecideConnection(named.moment(), bcp.KindConnect, "other", bcp.RoleReader, "UABC", "127.0.0.1"))
	if err := named.state.Moved(); !errors.Is(err, bcp.ErrMoved) {
		t.Errorf("it was connected here: %v", err)
	}
}
