package keys

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// CredsCommand returns the command creds.
func CredsCommand(p *cli.Program) *cobra.Command {
	return cli.Noun(credsListCommand(p), cli.IsID, credsIssueCommand(p), credsInviteCommand(p), credsRotateCommand(p), credsRevokeCommand(p))
}

func credsIssueCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var out string
	var all bool
	var restriction restrictionFlags
	var passkey string
	expires := cli.DurationFlag{Least: time.Second}
	cmd := &cobra.Command{
		Use: "issue AGENT...",
	}
	where.AddTo(cmd)
	role := meshdir.RoleFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "new `FILE` to write; for several agents, a folder")
	cmd.Flags().BoolVar(&all, "all", false, "issue to all agents and people in the definitions")
	cmd.Flags().Var(&expires, "expires", "refuse the credentials after this time (default: never)")
	cmd.Flags().StringVar(&passkey, "passkey", "", "let an approver decide only with the passkey in this `FILE`")
	restriction.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := restriction.value("creds issue")
		switch {
		case err != nil:
			return err
		case all && len(args) > 0:
			return cli.Usagef("creds issue: --all and agents cannot be combined")
		case !all && len(args) == 0:
			return cli.Usagef("creds issue: expected AGENT").WithHint("--all issues to all of them")
		case passkey != "" && (all || len(args) > 1):
			return cli.Usagef("creds issue: --passkey is for one person")
		case all || len(args) > 1:
			return issueSeveral(cmd.Context(), p, where, args, meshdir.ParsedRole(role), out, expires.Value, r)
		}
		options := []accounts.IssueOption{accounts.Restricted(r)}
		if passkey != "" {
			hash, err := readPasskey(passkey)
			if err != nil {
				return err
			}
			options = append(options, accounts.BoundTo(hash))
		}
		return issueCreds(cmd.Context(), p, where, args[0], meshdir.ParsedRole(role), out, expires.Value, options)
	}
	return cmd
}

func readPasskey(name string) (bcp.Digest, error) {
	content, err := cli.ReadFile(name, cli.MaxSmallFile)
	if err != nil {
		return bcp.Digest{}, err
	}
	passkey, err := accounts.ParsePasskey(content)
	switch {
	case errors.Is(err, accounts.PasskeyAlgorithm):
		return bcp.Digest{}, cli.Failf("%s: a key of this kind cannot sign decisions", cli.Quoted(name)).WithHint("make the passkey with ES256, EdDSA, or RS256 of 2048 to 4096 bits")
	case err != nil:
		return bcp.Digest{}, cli.Failf("%s is not the public key of a passkey", cli.Quoted(name)).WithHint(`expected {"rp_id": HOST, "public_key": SubjectPublicKeyInfo in base64url without padding}`)
	}
	return passkey.Hash()
}

// restrictionFlags say from where and how credentials are good.
type restrictionFlags struct{ sources, connections []string }

func (f *restrictionFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.sources, "source", nil, "`CIDR` that it may connect from, such as 10.1.0.0/16; may be repeated")
	cmd.Flags().StringSliceVar(&f.connections, "connection", nil, "standard or websocket: how it may connect (default: both)")
	cli.Complete(cmd, "connection", cobra.FixedCompletions(accounts.ConnectionTypes(), cobra.ShellCompDirectiveNoFileComp))
}

func (f *restrictionFlags) value(command string) (accounts.Restriction, error) {
	r := accounts.Restriction{Connections: f.connections}
	for _, text := range f.sources {
		prefix, err := netip.ParsePrefix(text)
		if address, parseErr := netip.ParseAddr(text); parseErr == nil && address.Zone() == "" {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return r, cli.Usagef("%s: --source: %s is not a network", command, cli.Quoted(text)).WithHint("for example 10.1.0.0/16 or 2001:db8::/32")
		}
		r.Sources = append(r.Sources, prefix)
	}
	for _, word := range f.connections {
		if !slices.Contains(accounts.ConnectionTypes(), word) {
			return r, cli.Usagef("%s: --connection: expected %s, got %s", command, cli.JoinOr(accounts.ConnectionTypes()), cli.Quoted(word))
		}
	}
	r, err := r.Checked()
	if err != nil {
		return r, cli.Usagef("%s: %s", command, err)
	}
	return r, nil
}

func issueCreds(ctx context.Context, p *cli.Program, where meshdir.StateFlags, agent string, role bcp.Role, out string, expires time.Duration, options []accounts.IssueOption) error {
	name, err := meshdir.AgentArgument("creds issue", agent)
	if err != nil {
		return err
	}
	if out == "" {
		return cli.Usagef("creds issue: expected --out FILE").WithHint("for example --out %s.creds", agent)
	}
	if err := cli.CheckNewFile(out); err != nil {
		return err
	}
	folder, err := where.Folder()
	if err != nil {
		return err
	}
	store, creds, err := issue(folder, where.Dir != "" || where.State == "", name, role, expires, options...)
	if err != nil {
		return err
	}
	if err := creds.WriteFile(out); err != nil {
		// Nobody has them: let nobody use them.
		return cli.Failf("%s cannot be written: %s", cli.Quoted(out), cli.FileReason(errors.Join(err, store.Revoke(creds.PublicKey))))
	}
	if len(creds.Restriction.Lines()) > 0 { // the server does not know of it yet
		if _, err := applyChange(p, ctx, where, folder); err != nil {
			return err
		}
	}
	return p.Out.Show(issuedFile{creds.User, out}, func() {
		p.Out.Printf("%s\n", cli.Plain(out))
		p.Out.Talkf("%s as %s, %s: keep it as you keep a password", creds.Agent, creds.Role, strings.Join(append([]string{lasts(creds.User)}, creds.Lines()...), ", "))
	})
}

// issue makes a user with the keys of the mesh, which it makes first where
// there are none. What the mesh last ran with decides about who there is; an
// agent that is new in the definitions is added to it, if it is sure that they
// belong together.
func issue(folder meshdir.Folder, sure bool, agent bcp.AgentName, role bcp.Role, expires time.Duration, options ...accounts.IssueOption) (*accounts.Store, accounts.Creds, error) {
	var creds accounts.Creds
	store, err := issueBy(folder, sure, func(store *accounts.Store) (err error) {
		creds, err = store.Issue(agent, role, expires, options...)
		return err
	}, func(scopes []subjects.Scope) error { return checkRole(scopes, agent, role) })
	return store, creds, err
}

// issueBy has make do it, again if the definitions know more than the keys and
// check finds nothing wrong with them.
func issueBy(folder meshdir.Folder, sure bool, make func(*accounts.Store) error, check func([]subjects.Scope) error) (*accounts.Store, error) {
	store, err := accounts.Open(folder.State, meshdir.Unlock())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, meshdir.KeysFailure(err, folder.State)
	}
	if err == nil {
		err := make(store)
		switch {
		case err == nil:
			return store, nil
		case !errors.Is(err, accounts.ErrUnknown):
			return nil, cli.Failf("%s", err)
		case !sure:
			return nil, cli.Failf("%s", err).WithHint("if the agent is new in the definitions, name their folder with --dir")
		}
	} else if folder.Dir == "" {
		return nil, cli.Failf("%s holds no keys of a mesh", cli.Quoted(folder.State)).WithHint("name the mesh with --dir")
	}
	definition, err := folder.Load()
	if err != nil {
		return nil, err
	}
	if err := check(subjects.Permissions(definition)); err != nil {
		return nil, err
	}
	store, _, err = mesh.Keys(folder.State, definition, meshdir.Unlock())
	if err != nil {
		return nil, meshdir.KeysFailure(err, folder.State)
	}
	if err := make(store); err != nil {
		return nil, cli.Failf("%s", err)
	}
	return store, nil
}

// checkRole checks that exactly one scope is meant.
func checkRole(scopes []subjects.Scope, agent bcp.AgentName, role bcp.Role) error {
	var known []bcp.AgentName
	var roles []string
	own := 0 // roles beside that of its keeper, which has to be named
	found := false
	for _, s := range scopes {
		if len(known) == 0 || known[len(known)-1] != s.Agent {
			known = append(known, s.Agent)
		}
		if s.Agent == agent {
			roles = append(roles, s.Role.String())
			found = found || s.Role == role
			if s.Role != bcp.RoleKeeper {
				own++
			}
		}
	}
	switch {
	case len(roles) == 0:
		return cli.UnknownAgent(string(agent), known)
	case role == 0 && own > 1:
		return cli.Failf("%s has several roles", agent).WithHint("name one: --role %s", cli.JoinOr(roles))
	case role != 0 && !found:
		return cli.Failf("%s is no %s", agent, role).WithHint("it is %s", cli.JoinOr(roles))
	}
	return nil
}

// issuedFile is one file.
type issuedFile struct {
	accounts.User
	File string `json:"file"`
}

// issueSeveral makes the credentials of agents, or of all where none is named, in
// one change of the keys, and writes them into a folder.
func issueSeveral(ctx context.Context, p *cli.Program, where meshdir.StateFlags, names []string, role bcp.Role, out string, expires time.Duration, r accounts.Restriction) error {
	if out == "" {
		return cli.Usagef("creds issue: expected --out DIR").WithHint("for example --out creds")
	}
	folder, err := where.Folder()
	if err != nil {
		return err
	}
	agents, err := severalAgents(folder, names, role)
	if err != nil {
		return err
	}
	if err := checkNewFiles(out, agents); err != nil {
		return err
	}
	var all []accounts.Creds
	store, err := issueBy(folder, where.Dir != "" || where.State == "", func(store *accounts.Store) (err error) {
		all, err = store.IssueTo(agents, role, expires, accounts.Restricted(r))
		return err
	}, func(scopes []subjects.Scope) error {
		for _, agent := range agents {
			if !slices.ContainsFunc(scopes, func(s subjects.Scope) bool { return s.Agent == agent && (role == 0 || s.Role == role) }) {
				return checkRole(scopes, agent, role)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	files := credsFiles(all)
	written, err := 0, os.MkdirAll(out, 0o700)
	if err == nil {
		written, err = accounts.WriteFiles(out, all, files)
	}
	if err != nil { // half of them are of no use: none is good, and none is left
		for _, name := range files[:written] {
			err = errors.Join(err, os.Remove(filepath.Join(out, name)))
		}
		keys := cli.Map(all, func(c accounts.Creds) string { return c.PublicKey })
		return cli.Failf("%s cannot be written: %s", cli.Quoted(out), cli.FileReason(errors.Join(err, store.Revoke(keys...))))
	}
	if len(r.Lines()) > 0 { // the server does not know of it yet
		if _, err := applyChange(p, ctx, where, folder); err != nil {
			return err
		}
	}
	list := make([]issuedFile, len(all))
	for i, c := range all {
		list[i] = issuedFile{c.User, filepath.Join(out, files[i])}
	}
	return p.Out.Show(list, func() {
		for _, l := range list {
			p.Out.Printf("%s\n", cli.Plain(l.File))
		}
		if len(all) > 0 {
			p.Out.Talkf("%s, %s: keep each as you keep a password", cli.Count(len(all), "file"), lasts(all[0].User))
		}
	})
}

// severalAgents returns who is named, once each, or all that the definitions name.
// The operator is not among these, whose credentials are nobody's everyday ones, and no
// dispatcher, which is a part of the mesh.
func severalAgents(folder meshdir.Folder, names []string, role bcp.Role) ([]bcp.AgentName, error) {
	var agents []bcp.AgentName
	if len(names) > 0 {
		for _, name := range names {
			agent, err := meshdir.AgentArgument("creds issue", name)
			if err != nil {
				return nil, err
			}
			agents = append(agents, agent)
		}
	} else {
		if folder.Dir == "" {
			return nil, cli.Failf("--all needs the definitions").WithHint("name the mesh with --dir")
		}
		def, err := folder.Load()
		if err != nil {
			return nil, err
		}
		for _, scope := range subjects.Permissions(def) {
			if scope.Agent != bcp.Operator && scope.Role != bcp.RoleDispatcher && (role == 0 || scope.Role == role) {
				agents = append(agents, scope.Agent)
			}
		}
		if len(agents) == 0 {
			return nil, cli.Failf("the definitions have nobody in that role")
		}
	}
	slices.Sort(agents)
	return slices.Compact(agents), nil
}

// checkNewFiles refuses files that are there, before anything changes. Which roles
// the agents have is not known yet.
func checkNewFiles(out string, agents []bcp.AgentName) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(out), cli.FileReason(err))
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	for _, agent := range agents {
		names := []string{string(agent) + ".creds"}
		for _, role := range []bcp.Role{bcp.RoleController, bcp.RoleReader, bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleKeeper, bcp.RolePlanner, bcp.RoleSubplanner, bcp.RoleTool} {
			names = append(names, roleFile(agent, role))
		}
		for _, name := range names {
			if there[name] {
				return cli.Failf("%s exists", cli.Quoted(filepath.Join(out, name))).WithHint("name another folder, or remove it")
			}
		}
	}
	return nil
}

// credsFiles names the files: with the role if an agent has several.
func credsFiles(all []accounts.Creds) []string {
	roles := map[bcp.AgentName]int{}
	for _, c := range all {
		roles[c.Agent]++
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = string(c.Agent) + ".creds"
		if roles[c.Agent] > 1 {
			names[i] = roleFile(c.Agent, c.Role)
		}
	}
	return names
}

func roleFile(agent bcp.AgentName, role bcp.Role) string {
	return string(agent) + "." + role.String() + ".creds" // no name has a dot
}
