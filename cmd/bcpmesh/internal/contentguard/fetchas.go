package contentguard

import (
	"context"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/page"
	"github.com/bcpmesh/bcpmesh/agents/web"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
)

// fetchAs gets one page by the definition of an agent: its hosts, start URLs and limits, as if it had sent nothing before.
func fetchAs(ctx context.Context, p *cli.Program, name, url string, o page.Options) error {
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
	meter := web.NewMeter(guard.PoolLimits{Budget: guard.NanoBits(e.Budget), Bytes: e.MaxBytes, HostBytes: e.MaxHostBytes, Window: e.Window}, time.Now)
	tool, err := web.New(web.Options{
		Agent: name, Policy: web.Policy(e.Hosts, os.LookupEnv), StartURLs: e.StartURLs, LinksOnly: e.LinksOnly,
		Addresses: mesh.AllowAddresses, Redact: o.Set, Ledger: meter,
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
		return p.Out.Value(struct {
			Result     web.Result `json:"result"`
			EgressBits bcp.Bits   `json:"egress_bits"`
			Bytes      int64      `json:"bytes"`
		}{r, bits, used.Bytes})
	}
	if r.Error != "" {
		f := deniedf(r.Error, url)
		if r.Error == guard.DenyAll || r.Error == guard.HostDenied || r.Error == guard.PortDenied {
			f = f.WithHint("network in %s lists the hosts of %s", agent.File, name)
		}
		return f
	}
	read := page.Page{Title: r.Title, Text: r.Text, Truncated: r.Truncated}
	for _, link := range r.Links {
		read.Links = append(read.Links, page.Link{URL: link.URL})
	}
	showPage(p, read)
	p.Out.Talkf("it told hosts %s bits at most, of %s over %s; %s of %s on the wire",
		bits, e.Budget, e.Window, cli.Count(int(used.Bytes), "byte"), cli.Count(int(e.MaxBytes), "byte"))
	return nil
}
