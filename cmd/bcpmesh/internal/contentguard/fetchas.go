package contentguard

import (
	"context"
	"math"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/web"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// metered is a ledger that a meter counts along with.
type metered struct {
	fetch.Ledger
	meter *fetch.Meter
}

// Reserve implements [fetch.Ledger].
func (m metered) Reserve(ctx context.Context, h fetch.Hop) (func(sent, received int64), error) {
	settle, err := m.Ledger.Reserve(ctx, h)
	if err != nil {
		return nil, err
	}
	count, err := m.meter.Reserve(ctx, h)
	if err != nil {
		return nil, err
	}
	return func(sent, received int64) {
		settle(sent, received)
		count(sent, received)
	}, nil
}

// recordedBy returns the ledger of the running mesh, which decides by what the agent has sent before, and a meter without
// limits that counts along.
func recordedBy(ctx context.Context, agent *bcp.Agent) (ledger metered, closing func(), err error) {
	if len(agent.Egress.Hosts) == 0 {
		return metered{}, nil, cli.Failf("%s has no network", agent.Name).WithHint("network in %s lists the hosts that it may reach", agent.File)
	}
	who := client.Flags{As: string(agent.Name)}
	c, err := who.Connect(ctx, bcp.RoleKeeper)
	if err != nil {
		return metered{}, nil, err
	}
	const all = math.MaxInt64 / 2
	meter := fetch.NewMeter(guard.PoolLimits{Budget: all, Bytes: all, HostBytes: all, Window: agent.Egress.Window}, time.Now)
	return metered{keeper.NewLedger(agents.NewKeeper(c.Connection)), meter}, c.Close, nil
}

// fetchAs gets one page by the definition of an agent: its hosts, start URLs and limits. It is recorded and charged by the
// running mesh, or is judged as if the agent had sent nothing before.
func fetchAs(ctx context.Context, p *cli.Program, name, url string, record bool, o web.ReadOptions) error {
	folder, err := meshdir.Find(".")
	if err != nil {
		return err
	}
	mesh, err := folder.Load()
	if err != nil {
		return err
	}
	agent, ok := mesh.Agent(bcp.AgentName(name))
	if !ok {
		return cli.Usagef("fetch: --as: the mesh has no agent %s", cli.Quoted(name))
	}
	e := agent.Egress
	meter := fetch.NewMeter(guard.PoolLimits{Budget: guard.NanoBits(e.Budget), Bytes: e.MaxBytes, HostBytes: e.MaxHostBytes, Window: e.Window}, time.Now)
	ledger := fetch.Ledger(meter)
	if record {
		recorded, closing, err := recordedBy(ctx, &agent)
		if err != nil {
			return err
		}
		defer closing()
		meter, ledger = recorded.meter, recorded
	}
	tool, err := web.New(fetch.Options{
		Agent: name, Policy: fetch.Policy(e.Hosts, os.LookupEnv), StartURLs: e.StartURLs, LinksOnly: e.LinksOnly,
		Addresses: mesh.AllowAddresses, Redact: o.Set, Ledger: ledger,
	})
	if err != nil {
		return err
	}
	arguments, err := json.Marshal(struct {
		URL      string `json:"url"`
		MaxChars int    `json:"max_chars"`
		Whole    bool   `json:"whole"`
	}{url, o.MaxChars, o.Whole})
	if err != nil {
		return err
	}
	r := tool.Call(ctx, arguments)
	used := meter.Use()
	bits := bcp.Bits(used.Bits)
	if p.Out.JSON {
		err := p.Out.Value(struct {
			Result     web.Result `json:"result"`
			EgressBits bcp.Bits   `json:"egress_bits"`
			Bytes      int64      `json:"bytes"`
		}{r, bits, used.Bytes})
		if err != nil {
			return err
		}
	}
	if r.Error != "" {
		f := deniedf(r.Error, url)
		if r.Error == guard.DenyAll || r.Error == guard.HostDenied || r.Error == guard.PortDenied {
			f = f.WithHint("network in %s lists the hosts of %s", agent.File, name)
		}
		return f
	}
	if p.Out.JSON {
		return nil
	}
	read := web.Page{Title: r.Title, Text: r.Text, Truncated: r.Truncated}
	for _, link := range r.Links {
		read.Links = append(read.Links, web.Link{URL: link.URL})
	}
	showPage(p, read)
	p.Out.Talkf("it told hosts at most %s of %s over %s; %s of %s on the wire",
		bits.Words(), e.Budget.Rounded(), e.Window, cli.Count(int(used.Bytes), "byte"), cli.Count(int(e.MaxBytes), "byte"))
	return nil
}
