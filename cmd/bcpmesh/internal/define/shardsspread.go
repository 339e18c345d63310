package define

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// spreading is shards --spread.
type spreading struct {
	shards cli.NumberFlag
	write  bool
}

// placement is the line that an agent's file gets.
type placement struct {
	File  string        `json:"file"`
	Agent bcp.AgentName `json:"agent"`
	Shard int           `json:"shard"`
}

// run proposes a shard for each island of a folder that has none, and writes it.
func (s spreading) run(p *cli.Program, folder meshdir.Folder) error {
	files, report := definition.Read(os.DirFS(folder.Dir))
	var mesh *bcp.Mesh
	var named map[bcp.AgentName]int
	if report.OK() {
		mesh, named, report = definition.ParseUnplaced(files)
	}
	if mesh == nil {
		return folder.Wrong(report)
	}
	homes, err := findHomes(mesh, named, folder.State)
	if err != nil {
		return err
	}
	islands := mesh.Islands()
	weights, by := weighIslands(mesh, islands)
	on, err := s.place(mesh, islands, weights, homes)
	if err != nil {
		return err
	}
	shards := map[bcp.AgentName]int{}
	placements := []placement{}
	for i, island := range islands {
		for _, name := range island.Agents {
			shards[name] = on[i]
			if _, ok := named[name]; !ok {
				agent, _ := mesh.Agent(name)
				placements = append(placements, placement{File: filepath.Join(folder.Dir, agent.File), Agent: name, Shard: on[i]})
			}
		}
	}
	edited, err := definition.AddShards(files, shards)
	if err != nil {
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("nothing was written")
	}
	if s.write {
		if err := replaceDefinition(folder, edited); err != nil {
			return err
		}
	}
	plan := newPlan(islands, on)
	if p.Out.JSON {
		return p.Out.Value(struct {
			shardsPlan
			By      string      `json:"by"`
			Lines   []placement `json:"lines"`
			Written bool        `json:"written"`
		}{plan, by, placements, s.write})
	}
	for _, line := range placements {
		p.Out.Printf("%s: +shard: %d\n", cli.Plain(line.File), line.Shard)
	}
	if len(placements) > 0 {
		p.Out.Printf("\n")
	}
	plan.showTotals(p.Out)
	s.printSpread(p.Out, folder, islands, weights, by, len(placements))
	return nil
}

// printSpread says what was counted, what keeps the shards from being even, and what to do.
func (s spreading) printSpread(o *cli.Output, folder meshdir.Folder, islands []bcp.Island, weights []int64, by string, lines int) {
	o.Talkf("spread by %s", by)
	var total int64
	heaviest := 0
	for i, w := range weights {
		total += w
		if w > weights[heaviest] {
			heaviest = i
		}
	}
	if weights[heaviest]*int64(s.shards.Value) > total {
		o.Talkf("one island has more than an even share, and cannot be split: %s", joins(islands[heaviest], s.shards.Value))
	}
	switch {
	case lines == 0:
		o.Talkf("every agent's file already names its shard")
	case s.write:
		o.Talkf("%s written; then: bcpmesh accounts export --force and bcpmesh accounts push, and start the gateways again, one after the other", cli.Count(lines, "line"))
	default:
		o.Talkf("nothing is written; to write it: bcpmesh shards %s --spread %d --write", folder.Dir, s.shards.Value)
	}
}

// homeShard is the shard that an agent keeps, and why.
type homeShard struct {
	shard int
	keys  bool // it has an account there for good; otherwise its file says so
}

// findHomes returns the shards of the agents that have one.
func findHomes(mesh *bcp.Mesh, named map[bcp.AgentName]int, state string) (map[bcp.AgentName]homeShard, error) {
	settled := map[bcp.AgentName]int{}
	store, err := accounts.Open(state, meshdir.Unlock())
	if err == nil {
		settled, err = store.Settled()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, meshdir.KeysFailure(err, state)
	}
	homes := map[bcp.AgentName]homeShard{}
	for _, a := range mesh.Agents {
		says, ok := named[a.Name]
		if ok {
			homes[a.Name] = homeShard{shard: says}
		}
		if keeps, known := settled[a.Name]; known {
			if ok && says != keeps {
				return nil, cli.Failf("%s: %s says shard %d, and is on shard %d: an agent keeps its shard", cli.Quoted(a.File), a.Name, says, keeps).
					WithHint("write shard: %d; on another shard it is a new agent, with another name", keeps)
			}
			homes[a.Name] = homeShard{shard: keeps, keys: true}
		}
	}
	return homes, nil
}

// weighIslands returns what each island has to do, and by what that is counted.
func weighIslands(mesh *bcp.Mesh, islands []bcp.Island) (weights []int64, by string) {
	var total int64
	for _, island := range islands {
		pushes, ok := maxPushes(mesh, island)
		if !ok {
			total = 0
			break
		}
		weights = append(weights, pushes)
		total += pushes
	}
	if total > 0 {
		return weights, "max_rate"
	}
	weights = nil
	for _, island := range islands {
		weights = append(weights, int64(len(island.Channels)))
	}
	return weights, "channels"
}

// place returns the shard of each island.
func (s spreading) place(mesh *bcp.Mesh, islands []bcp.Island, weights []int64, homes map[bcp.AgentName]homeShard) ([]int, error) {
	at := make([]int, len(islands))
	free := 0
	for i, island := range islands {
		var first bcp.AgentName
		at[i] = -1
		for _, name := range island.Agents {
			h, ok := homes[name]
			switch {
			case !ok:
				continue
			case at[i] < 0:
				first, at[i] = name, h.shard
			case at[i] != h.shard:
				return nil, cli.Failf("%s is on shard %d and %s on shard %d, and channels join them: both ends of a channel are on one", first, at[i], name, h.shard).
					WithHint("leave out the channels that join them: an agent keeps its shard")
			}
			if h.shard >= s.shards.Value {
				return nil, cli.Failf("%s is on shard %d already, which is not one of %d", name, h.shard, s.shards.Value).
					WithHint("--spread %d at least: an agent keeps its shard", highest(homes)+1)
			}
		}
		if at[i] < 0 {
			free++
		}
	}
	on := spread(weights, at, s.shards.Value)
	for shard := range s.shards.Value {
		if !slices.Contains(on, shard) {
			return nil, s.tooFew(mesh, islands, homes, free, shard)
		}
	}
	return on, nil
}

func highest(homes map[bcp.AgentName]homeShard) int {
	n := 0
	for h := range maps.Values(homes) {
		n = max(n, h.shard)
	}
	return n
}

// tooFew says why a shard would have no agents.
func (s spreading) tooFew(mesh *bcp.Mesh, islands []bcp.Island, homes map[bcp.AgentName]homeShard, free, empty int) error {
	if len(islands) == 1 {
		return cli.Failf("the mesh is one island of %s, which cannot be split: both ends of a channel are on one shard", cli.Count(len(mesh.Agents), "agent")).
			WithHint("%s", joins(islands[0], s.shards.Value))
	}
	if free == len(islands) {
		return cli.Failf("there are %d islands, and so %d shards at most", free, free).
			WithHint("--spread %d; or split the largest: %s", free, joins(largest(islands), s.shards.Value))
	}
	f := cli.Failf("shard %d would have no agents: %d of %s have their shard already", empty, len(islands)-free, cli.Count(len(islands), "island"))
	for _, h := range homes {
		if h.keys {
			return f.WithHint("agents keep their shard once creds were issued in their island, or a cluster got their permissions; new agents may have another")
		}
	}
	return f.WithHint("take out the lines \"shard:\" of a mesh that was never exported, or spread over fewer shards")
}

func largest(islands []bcp.Island) bcp.Island {
	return slices.MaxFunc(islands, func(a, b bcp.Island) int { return len(a.Channels) - len(b.Channels) })
}

// joins says what joins an island, and what splitting it over so many shards would take.
func joins(island bcp.Island, shards int) string {
	name, channels := busiest(island)
	parts := island.Without(name)
	text := fmt.Sprintf("%s has the most channels, %d of %d", name, channels, len(island.Channels))
	switch {
	case len(island.Agents) < 3:
		return "only agents that share no channel with these can be on another shard"
	case len(parts) < 2:
		return text + ", and the others are joined without it too: another split needs other channels"
	}
	weights, free := make([]int64, len(parts)), make([]int, len(parts))
	part := map[bcp.AgentName]int{}
	for i, p := range parts {
		weights[i], free[i] = int64(len(p.Channels)+1), -1
		for _, agent := range p.Agents {
			part[agent] = i
		}
	}
	on := spread(weights, free, min(shards, len(parts)))
	var apart []string // channels with what is not on the first shard, where the agent stays
	for _, key := range island.Channels {
		other := key.Reader
		if key.Reader == name {
			other = key.Controller
		} else if key.Controller != name {
			continue
		}
		if on[part[other]] > 0 {
			apart = append(apart, cli.ChannelName(key.Controller, key.Reader))
		}
	}
	return fmt.Sprintf("%s; without it there are %d islands. Split over %d shards, these channels would have to go through two meshes: %s",
		text, len(parts), min(shards, len(parts)), cli.FirstNames(apart))
}
