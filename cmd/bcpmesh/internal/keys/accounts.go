package keys

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// openKeys opens the keys of a mesh, which it makes if there are none.
func openKeys(state string) (*accounts.Store, error) {
	store, err := accounts.Open(state, meshdir.Unlock())
	if errors.Is(err, fs.ErrNotExist) {
		if err = meshdir.CheckKeys(state); err != nil {
			return nil, err
		}
		store, err = accounts.Create(state)
	}
	if err != nil {
		return nil, meshdir.KeysFailure(err, state)
	}
	return store, nil
}

// Export writes what a cluster and its gateways need.
type Export struct {
	meshdir.StateFlags
	Out            string
	Gateway, Guest []string

	files    []string // that were written
	b        accounts.Bundle
	gateways []bcp.AgentName
	guests   []bcp.AgentName // other meshes of the cluster
	guest    bool            // it is one of those: its logins to the system account are there
}

func (e *Export) Run(_ context.Context, p *cli.Program, args []string) error {
	if e.Out == "" {
		return cli.Usagef("accounts export: expected --out DIR").WithHint("for example --out ./cluster")
	}
	var err error
	if e.gateways, err = meshdir.AgentArguments("accounts export", e.Gateway); err != nil {
		return err
	}
	if e.guests, err = meshdir.AgentArguments("accounts export", e.Guest); err != nil {
		return err
	}
	if err := e.Take(args); err != nil {
		return err
	}
	_, away := os.Stat(filepath.Join(e.Out, guestPush))
	e.guest = away == nil
	folder, def, err := e.Load()
	if err != nil {
		return err
	}
	if def.RequireWitness > 0 {
		return cli.Failf("accounts export: require_witness is for a mesh of one process").WithHint("leave it out of mesh.yaml; on a cluster, bcpmesh audit export --checkpoint --witness has checkpoints cosigned")
	}
	if err := e.check(); err != nil {
		return err
	}
	store, err := openKeys(folder.State)
	if err != nil {
		return err
	}
	if err := e.write(store, def); err != nil {
		return err
	}
	return e.show(p, folder)
}

// check refuses to replace files before anything is made.
func (e *Export) check() error {
	for _, name := range []string{exportedOperator, ExportedSystem, ExportedResolver, ExportedNode, GatewaysFolder, GuestsFolder} {
		if _, err := os.Lstat(filepath.Join(e.Out, name)); err == nil {
			return cli.Failf("%s exists", cli.Quoted(filepath.Join(e.Out, name))).WithHint("export into another folder: logins stay the same")
		}
	}
	return nil
}

// write makes the files. Logins are made before the claims that let them in.
func (e *Export) write(store *accounts.Store, def *bcp.Mesh) error {
	monitor, push, err := e.host(store)
	if err != nil {
		return err
	}
	secrets := map[string]accounts.Creds{ExportedSystem: push}
	for _, g := range e.guests {
		system, push, err := store.Guest(g)
		if err != nil {
			return err
		}
		secrets[filepath.Join(GuestsFolder, string(g), guestMonitor)] = system
		secrets[filepath.Join(GuestsFolder, string(g), guestPush)] = push
	}
	for _, g := range e.gateways {
		core, system, err := store.Gateway(g)
		if err != nil {
			return err
		}
		if e.guest {
			system = monitor
		}
		secrets[filepath.Join(GatewaysFolder, string(g), server.CoreCreds)] = core
		secrets[filepath.Join(GatewaysFolder, string(g), server.SystemCreds)] = system
		dispatchers, err := store.Dispatchers(g, subjects.Permissions(def))
		if err != nil {
			return err
		}
		for name, creds := range dispatchers {
			secrets[filepath.Join(GatewaysFolder, string(g), server.DispatcherCreds(name))] = creds
		}
	}
	if e.b, err = accounts.CompileCluster(store, subjects.Permissions(def), time.Now()); err != nil {
		return err
	}
	for _, folder := range slices.Concat([]string{""}, folders(GatewaysFolder, e.gateways), folders(GuestsFolder, e.guests)) {
		if err := os.MkdirAll(filepath.Join(e.Out, folder), 0o700); err != nil {
			return cli.NotWritten(filepath.Join(e.Out, folder), err)
		}
	}
	texts := e.texts()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		path := filepath.Join(e.Out, name)
		if err := cli.WriteOver(path, []byte(texts[name]), 0o644); err != nil {
			return err
		}
		e.files = append(e.files, path)
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		path := filepath.Join(e.Out, name)
		if err := secrets[name].ReplaceFile(path); err != nil {
			return cli.NotWritten(path, err)
		}
		e.files = append(e.files, path)
	}
	return nil
}

// host returns the logins to the cluster's system account that a guest has, and of another
// mesh the one to push with.
func (e *Export) host(store *accounts.Store) (monitor, push accounts.Creds, err error) {
	if !e.guest {
		push, err = store.Push()
		return monitor, push, err
	}
	for name, creds := range map[string]*accounts.Creds{guestMonitor: &monitor, guestPush: &push} {
		if *creds, err = accounts.ReadCreds(filepath.Join(e.Out, name)); err != nil {
			return monitor, push, cli.Failf("%s: %s", cli.Quoted(filepath.Join(e.Out, name)), cli.FileReason(err)).
				WithHint("accounts export --guest NAME of the cluster's first mesh writes it")
		}
	}
	return monitor, push, nil
}

func (e *Export) show(p *cli.Program, folder meshdir.Folder) error {
	system, _ := e.b.Account(accounts.System)
	return p.Out.Show(struct {
		Out      string          `json:"out"`
		Files    []string        `json:"files"`
		Accounts int             `json:"accounts"`
		System   string          `json:"system_account"`
		Gateways []bcp.AgentName `json:"gateways"`
	}{e.Out, e.files, len(e.b.Accounts), system.PublicKey, e.gateways}, func() {
		for _, f := range e.files {
			p.Out.Printf("%s\n", cli.Plain(f))
		}
		p.Out.Talkf("%s; the keys stay in %s, which no node and no gateway gets", cli.Count(len(e.b.Accounts), "account"), folder.State)
		if e.guest {
			p.Out.Talkf("next: name %s in operator of each node's configuration, behind the first mesh's, and start the nodes again one by one", filepath.Join(e.Out, exportedOperator))
		} else {
			p.Out.Talkf("next: give each node %s, and a configuration that includes it, as %s does", ExportedResolver, ExportedNode)
		}
		for _, g := range e.gateways {
			p.Out.Talkf("      move %s to the machine of the gateway %s", filepath.Join(e.Out, GatewaysFolder, string(g)), g)
		}
		if len(e.gateways) == 0 {
			p.Out.Talkf("      name gateways with --gateway NAME: none can log in yet")
		}
		p.Out.Talkf("      after each change: bcpmesh accounts push --url … --creds %s", filepath.Join(e.Out, ExportedSystem))
	})
}

// The files of an export, from its folder, and those of a gateway, from its own.
const (
	exportedOperator = "operator.jwt"
	ExportedResolver = "resolver.conf"
	ExportedNode     = "nats-server.conf"
	ExportedSystem   = "system.creds"
	GatewaysFolder   = "gateways"
	GuestsFolder     = "guests"
	guestMonitor     = "monitor.creds"
	guestPush        = "push.creds"
)

// texts are the files of an export that hold no secret.
func (e *Export) texts() map[string]string {
	texts := map[string]string{exportedOperator: e.b.Operator + "\n"}
	if !e.guest {
		system, _ := e.b.Account(accounts.System)
		resolver := fmt.Sprintf(resolverHead, e.b.Operator, system.PublicKey)
		for _, a := range e.b.Accounts {
			resolver += fmt.Sprintf("  # %s\n  %s: %s\n", a.Name, a.PublicKey, a.JWT)
		}
		texts[ExportedResolver], texts[ExportedNode] = resolver+"}\n", nodeText
	}
	for _, folder := range folders(GatewaysFolder, e.gateways) {
		texts[filepath.Join(folder, exportedOperator)] = e.b.Operator + "\n"
	}
	return texts
}

func folders(in string, names []bcp.AgentName) []string {
	return cli.Map(names, func(name bcp.AgentName) string { return filepath.Join(in, string(name)) })
}

// resolverHead begins what all nodes include: what is before the accounts, with the operator and the system account.
//
//go:embed resolver.conf
var resolverHead string

// nodeText is the configuration of a node as a mesh needs it.
//
//go:embed nats-server.conf
var nodeText string
