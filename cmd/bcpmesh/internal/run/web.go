package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// Web serves pages for people.
type Web struct {
	client.Flags
	siteFlags
	Listen string `default:"localhost:4280"`
}

func (o *Web) Run(ctx context.Context, p *cli.Program, _ []string) error {
	if o.As != "" && o.Origin != "" {
		return cli.Usagef("web: with --origin everybody decides as themselves").WithHint("leave --as out, and invite people: bcpmesh creds invite NAME --role approver --web %s", o.Origin)
	}
	config := web.Config{Listen: o.Listen}
	var err error
	if config.Site, err = o.open(p, &o.Flags); err != nil {
		return err
	}
	server, err := listenAt(p, "--listen", config)
	if err != nil {
		return err
	}
	if o.Origin != "" {
		p.Out.Talkf("pages of %s at %s", o.Origin, server.Address())
		p.Out.Talkf("people enrol with an invitation: bcpmesh creds invite NAME --role approver --web %s", o.Origin)
	}
	return (&source{o.Flags}).serve(ctx, server)
}

// listenAt takes the port that a flag names. The addresses that log in are shown on standard error.
func listenAt(p *cli.Program, flag string, config web.Config) (*web.Server, error) {
	config.Announce = func(address string) { p.Out.Talkf("log in at %s", address) }
	server, err := web.Listen(config)
	address := config.Listen
	switch {
	case errors.Is(err, web.ErrOrigin):
		return nil, cli.Usagef("--origin: expected https:// and the name of a host, such as https://mesh.example.org, got %s", cli.Quoted(config.Site.Origin)).WithHint("passkeys are for a name and not for an IP address; http://localhost:PORT is for a try")
	case errors.Is(err, web.ErrNotLoopback) && config.Site != nil:
		return nil, cli.Failf("%s %s can be reached from other machines, and there is no TLS", flag, cli.Quoted(address)).WithHint("add --tls-cert and --tls-key; or listen on localhost, behind a proxy that has the certificate")
	case errors.Is(err, web.ErrNotLoopback):
		return nil, cli.Failf("%s %s can be reached from other machines", flag, cli.Quoted(address)).WithHint("listen on localhost; ssh -L 4280:localhost:4280 reaches it from elsewhere, and so does bcpmesh web --origin, with passkeys")
	case err != nil && meshdir.PortTaken(address):
		return nil, cli.Failf("%s %s: another program uses that port", flag, cli.Quoted(address)).WithHint("stop it, or take any free port: %s localhost:0", flag)
	case err != nil:
		return nil, cli.Failf("%s %s: %s", flag, cli.Quoted(address), cli.FileReason(err)).WithHint("for example %s localhost:4280", flag)
	}
	return server, nil
}

// renewal is how long connections are used whose credentials this process made for itself:
// half as long as these are good.
const renewal = client.OwnCredsTTL / 2

// source is where the pages get the mesh from: a creds file, or the folder of the mesh,
// whose owner has credentials made and decides as who says, or as its only approver.
type source struct{ who client.Flags }

// serve shows the mesh until ctx ends.
func (s *source) serve(ctx context.Context, server *web.Server) error {
	first, err := s.connect(ctx)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	again := s.connect
	if s.who.Creds != "" {
		again = nil // the creds file is read at every connect
	}
	if err := server.Serve(ctx, first, again, renewal); err != nil {
		return cli.Failf("the pages are no longer served: %s", cli.FileReason(err))
	}
	return nil
}

func (s *source) connect(ctx context.Context) (m web.Mesh, err error) {
	var open []*client.Client
	m.Close = func() {
		for _, c := range open {
			c.Close()
		}
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	connect := func(who client.Flags, role bcp.Role) (*client.Client, error) {
		c, err := who.Connect(ctx, role)
		if err == nil {
			open = append(open, c)
		}
		return c, err
	}
	who := s.who
	if who.Creds == "" {
		who.As = anyAuditor(who.Where)
	}
	auditor, err := connect(who, bcp.RoleAuditor)
	if err != nil {
		return m, err
	}
	m.Auditor, m.Budgets, m.Connected = auditor.Auditor(), auditor.Operator(), auditor.NATS().IsConnected
	m.Definition = func() *bcp.Mesh { return auditor.Definition }
	if s.who.Creds != "" {
		return m, nil
	}
	if folder, err := s.who.Where.Folder(); err == nil {
		m.Proof = func() web.Proof { return proof(folder.State) }
	}
	owner := s.who
	operator, err := connect(owner, bcp.RoleOperator)
	if err != nil {
		return m, err
	}
	m.Operator = operator.Operator()
	if owner.As == "" && auditor.Definition != nil && len(auditor.Definition.Approvers) == 1 {
		owner.As = string(auditor.Definition.Approvers[0])
	}
	if owner.As != "" { // it is known who decides about what is held
		approver, err := connect(owner, bcp.RoleApprover)
		if err != nil {
			return m, err
		}
		m.Owner = &web.Person{Name: approver.Name, Approver: agents.NewApprover(approver.Connection)}
	}
	return m, nil
}

// anyAuditor is the first auditor of a folder's mesh: all of them see the same.
func anyAuditor(where meshdir.StateFlags) string {
	_, def, err := where.Load()
	if err != nil || len(def.Auditors) == 0 {
		return ""
	}
	return string(def.Auditors[0])
}

// proof is the newest checkpoint of a state folder. One that cannot be read is none.
func proof(state string) (p web.Proof) {
	store, err := accounts.Open(state)
	tree := mesh.Tree(state)
	if newest, wrong := tree.Newest(); wrong == nil && err == nil {
		p.Checkpoint = string(newest)
		p.Signed, _ = tree.SignedAt()
		p.Key, _ = store.CheckpointPublic()
	}
	return p
}

// siteFlags say where browsers of other machines find the pages.
type siteFlags struct {
	Origin string
	Cert   string `flag:"tls-cert"`
	Key    string `flag:"tls-key"`
}

// open returns the site, nil without --origin.
func (f *siteFlags) open(p *cli.Program, who *client.Flags) (*web.Site, error) {
	switch {
	case f.Origin == "" && f.Cert+f.Key != "":
		return nil, cli.Usagef("web: --tls-cert and --tls-key need --origin")
	case f.Origin == "":
		return nil, nil
	case (f.Cert == "") != (f.Key == ""):
		return nil, cli.Usagef("web: --tls-cert and --tls-key must be given together")
	case who.Where.State == "" && who.Creds != "":
		return nil, cli.Usagef("web: with --creds, --origin needs --state DIR").
			WithHint("its folder web keeps the passkeys of people, and the creds that are bound to them")
	}
	state := who.Where.State
	if who.Creds == "" {
		folder, err := who.Where.Folder()
		if err != nil {
			return nil, err
		}
		state = folder.State
	}
	store := filepath.Join(state, "web")
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, cli.NotWritten(store, err)
	}
	site := &web.Site{Origin: f.Origin, People: &web.People{Folder: store, At: who.At, Logger: log}}
	if f.Cert != "" {
		var err error
		if site.TLS, err = server.FileTLS(f.Cert, f.Key, log); err != nil {
			return nil, cli.Failf("--tls-cert %s: %s", cli.Quoted(f.Cert), cli.FileReason(err)).WithHint("it needs a certificate and its key, as PEM files")
		}
	}
	return site, nil
}
