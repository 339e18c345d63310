package bcp

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// An agent is in a journal with what it did, and with what became of its channels: not
// where somebody only names it. Whom the definitions do not have at all is nobody's.
//
// covers P4.5, BCP-34
func TestMoves(t *testing.T) {
	t.Parallel()
	mesh := func(shard int) *Mesh {
		return (&Mesh{Agents: []Agent{{Name: "boss", Shard: shard}, {Name: "clerk", Shard: shard}, {Name: "desk"}, {Name: "far", Shard: 1}}}).OfShard(0)
	}
	channel := func(d Decision) Decision {
		d.Controller, d.Reader = "boss", "clerk"
		return d
	}
	for name, c := range map[string]struct {
		of   Decision
		want string // of boss and clerk
	}{
		"nothing":                      {Decision{Kind: KindStart, Agent: Gateway}, ""},
		"a connection":                 {Decision{Kind: KindConnect, Agent: "boss", Role: RoleController}, "boss"},
		"the end of one":               {Decision{Kind: KindDisconnect, Agent: "clerk", Role: RoleReader}, "clerk"},
		"a person of its name":         {Decision{Kind: KindConnect, Agent: "boss", Role: RoleApprover}, ""},
		"an agent that is here":        {Decision{Kind: KindConnect, Agent: "desk", Role: RoleController}, ""},
		"an agent that is gone":        {Decision{Kind: KindConnect, Agent: "ghost", Role: RoleReader}, ""},
		"an ask":                       {channel(Decision{Kind: KindAsk, Agent: "boss", Role: RoleController, Verdict: Accept, Session: "s"}), "boss clerk"},
		"an ask at its gate":           {channel(Decision{Kind: KindAsk, Agent: "boss", Role: RoleController, Verdict: Hold, Session: "s"}), "boss clerk"},
		"a refused ask":                {channel(Decision{Kind: KindAsk, Agent: "boss", Role: RoleController, Verdict: Reject}), "boss"},
		"a refused ask of another":     {Decision{Kind: KindAsk, Agent: "desk", Role: RoleController, Controller: "desk", Reader: "clerk", Verdict: Reject}, ""},
		"a push":                       {channel(Decision{Kind: KindPush, Agent: "clerk", Role: RoleReader, Verdict: Accept}), "boss clerk"},
		"a refused push":               {channel(Decision{Kind: KindPush, Agent: "clerk", Role: RoleReader, Verdict: Reject}), "clerk"},
		"a session by a delivery":      {channel(Decision{Kind: KindBatch, Session: "s", SessionBegins: true, SessionByDelivery: true}), "boss"},
		"a session that is renewed":    {Decision{Kind: KindSession, Agent: Operator, Role: RoleOperator, Controller: "boss", Session: "s", Verdict: Accept}, "boss"},
		"a prompt":                     {Decision{Kind: KindPrompt, Agent: "clerk", Role: RoleReader}, "clerk"},
		"a violation":                  {Decision{Kind: KindViolation, Agent: "clerk", Role: RoleReader, Count: 3}, "clerk"},
		"taint that is reported":       {Decision{Kind: KindTaint, Agent: Operator, Role: RoleOperator, Target: "clerk", Verdict: Accept}, "clerk"},
		"taint that is refused":        {Decision{Kind: KindTaint, Agent: Operator, Role: RoleOperator, Target: "clerk", Verdict: Reject}, ""},
		"credentials of it":            {Decision{Kind: KindCredential, Agent: Operator, Role: RoleOperator, Target: "boss", Event: string(CredentialIssued)}, ""},
		"credentials that it made":     {Decision{Kind: KindCredential, Agent: "boss", Role: RoleController, Target: "boss", Event: string(CredentialJoined)}, ""},
		"an erasure of what never was": {channel(Decision{Kind: KindErase, Agent: Operator, Role: RoleOperator, Verdict: Accept}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.of.Seq = 7
			for shard, want := range map[int]string{0: "", 1: c.want} {
				moves := mesh(shard).Moves()
				moves.Add(&Decision{Seq: 6, Kind: KindReload, Agent: Operator, Role: RoleOperator})
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
				if err := moves.Err(); errors.Is(err, ErrMoved) != (want != "") || err == nil != (want == "") {
					t.Errorf("on shard %d: %v", shard, err)
				}
			}
			whole := (&Mesh{Agents: []Agent{{Name: "boss", Shard: 1}}}).Moves()
			if whole.Add(&c.of); whole.Err() != nil {
				t.Errorf("as a whole: %v", whole.Err())
			}
		})
	}
	moves := mesh(1).Moves()
	ask := channel(Decision{Seq: 7, Kind: KindAsk, Agent: "boss", Role: RoleController, Verdict: Accept})
	moves.Add(&ask)
	const want = "an agent keeps its shard: boss is on shard 1, and in the journal of shard 0 since decision 7, and so with 1 more; " +
		"leave it on shard 0 (shard: 0 in its definition), or give the agent on shard 1 another name"
	if err := moves.Err(); err == nil || err.Error() != want {
		t.Errorf("it says %v", err)
	}
}

// elsewhere is a mesh without some agents, which are on shard 1.
func elsewhere(names ...AgentName) *Mesh {
	m := richMesh()
	for i := range m.Agents {
		if slices.Contains(names, m.Agents[i].Name) {
			m.Agents[i].Shard = 1
		}
	}
	m.Agents = append(m.Agents, Agent{Name: "other", Encoding: JSON, Reader: true, Shard: 1})
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
	for _, name := range []AgentName{"planner", "mail"} {
		moved := w.alike(t)
		moved.config.Mesh = elsewhere(name)
		state := moved.replay()
		if err := state.Moved(); !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), string(name)+" is on shard 1") {
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
	for _, agent := range []AgentName{"other", "ghost"} {
		named.commit(named.state.DecideCredential(named.moment(), CredentialIssued, agent, "UABC", CredentialChange{Number: 1}))
		erase, reasons := named.state.DecideErase(named.moment(), EraseRequest{Controller: agent, Reader: "other", Before: named.now.Add(-48 * time.Hour).Format(time.DateOnly)})
		if len(reasons) > 0 {
			t.Fatal(reasons)
		}
		named.commit(erase)
	}
	named.commit(named.state.DecideConnection(named.moment(), KindConnect, "other", RoleAuditor, "UABC", "127.0.0.1"))
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
	named.commit(named.state.DecideConnection(named.moment(), KindConnect, "other", RoleReader, "UABC", "127.0.0.1"))
	if err := named.state.Moved(); !errors.Is(err, ErrMoved) {
		t.Errorf("it was connected here: %v", err)
	}
}
