package define

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Perms shows who may do what, or proves it.
type Perms struct {
	Agent string
	proveFlags
}

func (o *Perms) Run(_ context.Context, p *cli.Program, args []string) error {
	switch {
	case o.Prove && o.Agent != "":
		return cli.Usagef("perms: --prove is of all agents, and takes no --agent")
	case o.Prove:
		return provePermissions(p, o.proveFlags, args)
	case len(o.JWTs)+len(o.Trust)+len(o.Through) > 0:
		return cli.Usagef("perms: --jwts, --trust and --through need --prove")
	}
	folder, err := meshdir.Argument(args)
	if err != nil {
		return err
	}
	mesh, err := folder.Load()
	if err != nil {
		return err
	}
	all := collectPermissions(subjects.Permissions(mesh))
	if o.Agent != "" {
		roles, ok := all[bcp.AgentName(o.Agent)]
		if !ok {
			return cli.UnknownAgent(o.Agent, slices.Sorted(maps.Keys(all)))
		}
		all = permissions{bcp.AgentName(o.Agent): roles}
	}
	return p.Out.Show(all, func() { showPermissions(p.Out, all) })
}

// permissions are all rights of a mesh, by agent or person and role.
type permissions map[bcp.AgentName]map[string]rights

// rights are those of one agent in one role.
type rights struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Respond: one message may be sent to the reply subject of each message
	// received, for RespondFor seconds after it.
	Respond          bool  `json:"respond"`
	RespondFor       int64 `json:"respond_for_seconds"`
	MaxSubscriptions int   `json:"max_subscriptions"`
}

func collectPermissions(scopes []subjects.Scope) permissions {
	all := permissions{}
	for _, s := range scopes {
		if all[s.Agent] == nil {
			all[s.Agent] = map[string]rights{}
		}
		all[s.Agent][s.Role.String()] = rights{
			Publish: s.PubAllow, Subscribe: s.SubAllow, Respond: s.Respond, RespondFor: cli.Seconds(s.RespondFor), MaxSubscriptions: s.MaxSubscriptions,
		}
	}
	return all
}

func showPermissions(o *cli.Output, all permissions) {
	var rows [][]string
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		for _, role := range slices.Sorted(maps.Keys(all[agent])) {
			r := all[agent][role]
			replies := "none"
			if r.Respond {
				replies = "one within " + cli.Duration(r.RespondFor)
			}
			rows = append(rows, []string{string(agent), role, cmp.Or(strings.Join(r.Publish, "\n"), "nothing"), strings.Join(r.Subscribe, "\n"), replies})
		}
	}
	o.Table([]string{"agent", "role", "may publish", "may subscribe", "replies"}, rows)
}

// proveFlags are those of perms --prove.
type proveFlags struct {
	Prove          bool
	JWTs           []string `flag:"jwts"`
	Trust, Through []string
}

// proved is the JSON form of a proof.
type proved struct {
	OK     bool          `json:"ok"`
	Source string        `json:"source"`
	Claims []provedClaim `json:"claims"`
	proof.Report
}

type provedClaim struct {
	Claim proof.Claim `json:"claim"`
	Text  string      `json:"text"`
	Holes int         `json:"holes"`
}

func provePermissions(p *cli.Program, f proveFlags, args []string) error {
	policy := proof.Policy{Trusted: f.Trust, Through: f.Through}
	for _, pattern := range f.Through {
		if !subjects.Valid(pattern) {
			return cli.Usagef("perms: --through: %s is not a subject pattern", cli.Quoted(pattern))
		}
	}
	if len(f.JWTs) > 0 && len(args) > 0 {
		return cli.Usagef("perms: --jwts and DIR name two things to prove").WithHint("leave one out")
	}
	claims, source, err := f.read(args)
	if err != nil {
		return err
	}
	report, err := proof.Prove(claims, policy)
	if errors.Is(err, proof.ErrNoTokens) {
		return cli.Failf("there is no account's JWT in %s", source).WithHint("give the accounts' JWTs, and the operator's, with --jwts")
	}
	if err != nil {
		return err
	}
	result := proved{OK: len(report.Holes) == 0, Source: source, Report: report}
	for _, c := range proof.All() {
		result.Claims = append(result.Claims, provedClaim{c, c.Text(), len(report.Of(c))})
	}
	if err := p.Out.Show(result, func() { showProof(p, result) }); err != nil {
		return err
	}
	if result.OK {
		return nil
	}
	fault := cli.Failf("%s past the gateway", cli.Count(len(report.Holes), "way"))
	if len(claims.Operators) == 0 {
		return fault.WithHint("the operator's JWT is not among them; without it, its restrictions are not taken into account")
	}
	return fault
}

// read collects the JWTs: those that were named, those that the mesh's server
// last served, or, of a mesh that never ran, those that it would issue.
func (f proveFlags) read(args []string) (proof.Claims, string, error) {
	var claims proof.Claims
	if len(f.JWTs) > 0 {
		for _, name := range f.JWTs {
			if err := addTokens(&claims, name, io.Discard); err != nil {
				return claims, "", err
			}
		}
		return claims, strings.Join(f.JWTs, ", "), nil
	}
	folder, err := meshdir.Argument(args)
	if err != nil {
		return claims, "", err
	}
	served := server.Claims(folder.State)
	if _, err := os.Stat(served.Operator); err == nil {
		for _, name := range []string{served.Operator, served.Accounts} {
			if err := addTokens(&claims, name, io.Discard); err != nil {
				return claims, "", err
			}
		}
		return claims, "what the server last served, in " + served.Accounts, nil
	}
	mesh, err := folder.Load()
	if err != nil {
		return claims, "", err
	}
	draft, err := os.MkdirTemp("", "bcpmesh-prove-")
	if err != nil {
		return claims, "", cli.Failf("no temporary folder for keys: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(draft) }()
	store, err := accounts.Create(draft)
	if err != nil {
		return claims, "", err
	}
	bundle, err := accounts.Compile(store, subjects.Permissions(mesh), time.Now())
	if err != nil {
		return claims, "", err
	}
	tokens := []string{bundle.Operator}
	for _, a := range bundle.Accounts {
		tokens = append(tokens, a.JWT)
	}
	return claims, "what would be issued: the mesh has not been started", claims.Add(strings.Join(tokens, "\n"))
}

// maxTokenFile bounds a file with JWTs, such as a resolver's configuration.
const maxTokenFile = 64 << 20

// addTokens reads a file, or every JWT and creds file below a folder in the order of their names, and tells to what it has read.
func addTokens(claims *proof.Claims, name string, to io.Writer) error {
	info, err := os.Stat(name)
	if err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
	}
	files := []string{name}
	if info.IsDir() {
		files = nil
		err := filepath.WalkDir(name, func(file string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && slices.Contains([]string{".jwt", ".creds"}, filepath.Ext(file)) {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		if len(files) == 0 {
			return cli.Failf("there is no .jwt or .creds file in %s", cli.Quoted(name))
		}
	}
	for _, file := range files {
		content, err := cli.ReadFile(file, maxTokenFile)
		if err != nil {
			return err
		}
		if err := claims.Add(string(content)); err != nil {
			return cli.Failf("%s: %s", cli.Quoted(file), err)
		}
		_, _ = to.Write(content) // a digest, which does not fail
	}
	return nil
}

// maxShownHoles is how many ways a person is shown; --json has all.
const maxShownHoles = 20

func showProof(p *cli.Program, r proved) {
	p.Out.Heading("Proof")
	p.Out.Printf("of      %s\n", cli.Plain(r.Source))
	p.Out.Printf("agents  %s\n", cli.Plain(cli.FirstNames(r.Principals, 12)))
	p.Out.Printf("trusted %s\n", cli.Plain(cli.FirstNames(r.Trusted, 12)))
	p.Out.Printf("%s, %s, %s of agents and people, %s of what they publish\n\n",
		cli.Count(r.Accounts, "account"), cli.Count(len(r.Principals), "principal"), cli.Count(r.Pairs, "pair"), cli.Count(r.Ways, "station"))
	p.Out.Table([]string{"claim", "what it says", "result"}, cli.Map(r.Claims, func(c provedClaim) []string {
		verdict := "proven"
		if c.Holes > 0 {
			verdict = cli.Count(c.Holes, "way") + " past it"
		}
		return []string{string(c.Claim), c.Text, verdict}
	}))
	showRoles(p, r.Report)
	for i, h := range r.Holes {
		if i == maxShownHoles {
			p.Out.Printf("\n%d more: --json has all\n", len(r.Holes)-i)
			return
		}
		p.Out.Printf("\n%d. %s: %s to %s\n", i+1, h.Claim, cli.Plain(h.From), cli.Plain(h.To))
		for j, step := range strings.Split(h.String(), " -> ") {
			arrow := "   "
			if j > 0 {
				arrow = "-> "
			}
			p.Out.Printf("   %s%s\n", arrow, cli.Plain(step))
		}
		if h.Publish != "" {
			p.Out.Printf("   try: publish %s, it arrives as %s\n", cli.Plain(h.Publish), cli.Plain(h.Arrives))
		}
	}
}

// showRoles shows the isolation matrix and the edges, of a mesh that has planners.
func showRoles(p *cli.Program, r proof.Report) {
	if !slices.ContainsFunc(r.Edges, func(e proof.Passage) bool { return e.Open && e.To == contract.Planner }) {
		return
	}
	columns := contract.Columns()
	titles, rows := []string{"hears"}, [][]string{}
	for _, c := range columns {
		titles = append(titles, strings.ReplaceAll(string(c), "_", " "))
	}
	for i, cell := range r.Matrix {
		if i%len(columns) == 0 {
			rows = append(rows, []string{string(cell.Role)})
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], string(cell.Sees))
	}
	p.Out.Printf("\n")
	p.Out.Table(titles, rows)
	rows = nil
	for _, e := range r.Edges {
		open := "closed"
		if e.Open {
			open = "open"
		}
		rows = append(rows, []string{string(e.From), string(e.To), e.Family, open})
	}
	p.Out.Printf("\n")
	p.Out.Table([]string{"from", "to", "subjects", "edge"}, rows)
}
