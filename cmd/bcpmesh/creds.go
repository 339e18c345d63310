package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func credsCommand(p *program) *cobra.Command {
	return group("creds", "Issue, inspect and revoke the credentials of agents and people",
		`Issue, inspect and revoke the credentials of agents and people: .creds files,
which any NATS client takes. Each is for one agent in one role, and holds a
private key. Whatever is done with them is recorded in the audit: by the running
mesh within a second, or when it starts.`,
		`  bcpmesh creds issue researcher --out researcher.creds
  bcpmesh creds list
  bcpmesh creds revoke researcher`,
		credsIssueCommand(p), credsListCommand(p), credsShowCommand(p), credsInviteCommand(p), credsRotateCommand(p), credsRevokeCommand(p))
}

// stateFlags say which mesh a command of creds works on.
type stateFlags struct{ dir, state string }

func (f *stateFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "dir", "", "`DIR` of the mesh (default: the mesh of the current folder)")
	cmd.Flags().StringVar(&f.state, "state", "", "`DIR` of its state (default: .bcpmesh in the folder of the mesh)")
	for _, name := range []string{"dir", "state"} {
		complete(cmd, name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		})
	}
}

// folder finds the mesh. With --state alone nothing says that the definitions
// at hand are those of the state: they are enough to make new keys from, and
// must not change keys that are there. There may also be none: dir is empty.
func (f *stateFlags) folder() (meshFolder, error) {
	var folder meshFolder
	var err error
	if f.dir != "" {
		folder, err = meshArgument([]string{f.dir})
	} else {
		folder, err = findMesh(".")
	}
	if f.state == "" {
		return folder, err
	}
	if f.dir != "" && err != nil {
		return meshFolder{}, err
	}
	info, err := os.Stat(f.state)
	if err == nil && !info.IsDir() {
		return meshFolder{}, failf("%s is not a folder", quoted(f.state))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meshFolder{}, failf("%s cannot be read: %s", quoted(f.state), reasonOf(err))
	}
	folder.state = f.state
	return folder, nil
}

func credsIssueCommand(p *program) *cobra.Command {
	var where stateFlags
	var out string
	var all bool
	var restriction restrictionFlags
	var asContext contextFlags
	expires := durationFlag{least: time.Second}
	cmd := &cobra.Command{
		Use:   "issue AGENT...",
		Short: "Make the credentials of agents or people",
		Long: `Make the credentials of an agent, or of an approver or auditor, and write them to
a new file that only its owner may read. An agent with several roles needs one
file for each, and --role says which. Give each process a file of its own.

Of several agents, or of all that the definitions name with --all, they are made
in one step, and the files are AGENT.creds in a folder, or AGENT.ROLE.creds where
an agent has several roles. Either all are written or none is good.

It works while the mesh runs, and while it rests. The first time it makes the
keys of the mesh, in the state folder. The file holds no permissions: an edit
of the definitions needs no new file. An agent that the running mesh does not
know yet can connect once the mesh has loaded its definition.

With --context the stock nats CLI can use it, with the agent's inbox prefix and
the mesh's certificate: nats --context NAME req SUBJECT BODY.

With --source the file is good from these networks alone, over a standard
connection, and with --connection in this way alone.`,
		Example: `  bcpmesh creds issue researcher --out researcher.creds
  bcpmesh creds issue main --out main.creds --context office-main
  bcpmesh creds issue alice --role approver --out alice.creds --expires 24h
  bcpmesh creds issue researcher --out researcher.creds --source 10.1.0.0/16
  bcpmesh creds issue --all --out creds --expires 30d`,
		ValidArgsFunction: completeAgents(true),
	}
	where.addTo(cmd)
	role := roleFlag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, which must not exist; of several agents a folder")
	cmd.Flags().BoolVar(&all, "all", false, "of all agents and people that the definitions name")
	cmd.Flags().Var(&expires, "expires", "refuse the credentials after this time (default: never)")
	restriction.addTo(cmd)
	asContext.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := restriction.value("creds issue")
		switch {
		case err != nil:
			return err
		case all && len(args) > 0:
			return usagef("creds issue: --all and agents exclude each other")
		case !all && len(args) == 0:
			return usagef("creds issue: expected AGENT").withHint("--all is for all of them")
		case all || len(args) > 1:
			if asContext.name != "" {
				return usagef("creds issue: --context is for one agent")
			}
			return issueSeveral(cmd.Context(), p, where, args, role.role(), out, expires.value, r)
		}
		return issueCreds(cmd.Context(), p, where, args[0], role.role(), out, expires.value, r, &asContext)
	}
	return cmd
}

// restrictionFlags say from where and how credentials are good.
type restrictionFlags struct{ sources, connections []string }

func (f *restrictionFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.sources, "source", nil, "`CIDR` that it may connect from, such as 10.1.0.0/16; may be repeated")
	cmd.Flags().StringSliceVar(&f.connections, "connection", nil, "standard or websocket: how it may connect (default: both)")
	complete(cmd, "connection", cobra.FixedCompletions(accounts.ConnectionTypes(), cobra.ShellCompDirectiveNoFileComp))
}

func (f *restrictionFlags) value(command string) (accounts.Restriction, error) {
	r := accounts.Restriction{Connections: f.connections}
	for _, text := range f.sources {
		prefix, err := netip.ParsePrefix(text)
		if address, parseErr := netip.ParseAddr(text); parseErr == nil && address.Zone() == "" {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return r, usagef("%s: --source: %s is no network", command, quoted(text)).withHint("for example 10.1.0.0/16 or 2001:db8::/32")
		}
		r.Sources = append(r.Sources, prefix)
	}
	for _, word := range f.connections {
		if !slices.Contains(accounts.ConnectionTypes(), word) {
			return r, usagef("%s: --connection: expected %s, got %s", command, oneOf(accounts.ConnectionTypes()), quoted(word))
		}
	}
	r, err := r.Checked()
	if err != nil {
		return r, usagef("%s: %s", command, err)
	}
	return r, nil
}

func issueCreds(ctx context.Context, p *program, where stateFlags, agent string, role bcp.Role, out string, expires time.Duration, r accounts.Restriction, asContext *contextFlags) error {
	name, err := agentArgument("creds issue", agent)
	if err != nil {
		return err
	}
	if out == "" {
		return usagef("creds issue: expected --out FILE").withHint("for example --out %s.creds", agent)
	}
	if err := checkNewFile(out); err != nil {
		return err
	}
	folder, err := where.folder()
	if err != nil {
		return err
	}
	natsCLI, err := asContext.plan(p, folder)
	if err != nil {
		return err
	}
	store, creds, err := issue(folder, where.dir != "" || where.state == "", name, role, expires, accounts.Restricted(r))
	if err != nil {
		return err
	}
	if err := creds.WriteFile(out); err != nil {
		// Nobody has them: let nobody use them.
		return failf("%s cannot be written: %s", quoted(out), reasonOf(errors.Join(err, store.Revoke(creds.PublicKey))))
	}
	if len(r.Lines()) > 0 { // the server does not know of it yet
		if _, err := p.apply(ctx, where, folder); err != nil {
			return err
		}
	}
	if natsCLI != nil {
		if err := natsCLI.write(creds.User, out); err != nil {
			return err
		}
	}
	if p.out.json {
		return p.out.value(struct {
			accounts.User
			File    string `json:"file"`
			Context string `json:"context,omitempty"`
		}{creds.User, out, asContext.name})
	}
	p.out.printf("%s\n", plain(out))
	if natsCLI != nil {
		p.out.talkf("nats --context %s acts as it, at %s", asContext.name, natsCLI.URL)
	}
	p.out.talkf("%s as %s, %s: keep it as you keep a password", creds.Agent, creds.Role, strings.Join(append([]string{lasts(creds.User)}, r.Lines()...), ", "))
	return nil
}

// checkNewFile refuses a place where no new file can be, before anything
// changes.
func checkNewFile(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return failf("%s exists", quoted(name)).withHint("name another file, or remove this one")
	}
	info, err := os.Stat(filepath.Dir(name))
	switch {
	case err != nil:
		return failf("%s cannot be written: %s", quoted(name), reasonOf(err))
	case !info.IsDir():
		return failf("%s cannot be written: %s is not a folder", quoted(name), quoted(filepath.Dir(name)))
	case strings.HasSuffix(name, string(filepath.Separator)):
		return failf("%s is no name of a file", quoted(name))
	}
	return nil
}

// issue makes a user with the keys of the mesh, which it makes first where
// there are none. What the mesh last ran with decides about who there is; an
// agent that is new in the definitions is added to it, where it is sure that they
// belong together.
func issue(folder meshFolder, sure bool, agent bcp.AgentName, role bcp.Role, expires time.Duration, options ...accounts.IssueOption) (*accounts.Store, accounts.Creds, error) {
	var creds accounts.Creds
	store, err := issueBy(folder, sure, func(store *accounts.Store) (err error) {
		creds, err = store.Issue(agent, role, expires, options...)
		return err
	}, func(scopes []subjects.Scope) error { return checkRole(scopes, agent, role) })
	return store, creds, err
}

// issueBy has make do it, again where the definitions know more than the keys and
// check finds nothing wrong with them.
func issueBy(folder meshFolder, sure bool, make func(*accounts.Store) error, check func([]subjects.Scope) error) (*accounts.Store, error) {
	store, err := accounts.Open(folder.state, unlock())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, keysFailure(err, folder.state)
	}
	if err == nil {
		err := make(store)
		switch {
		case err == nil:
			return store, nil
		case !errors.Is(err, accounts.ErrUnknown):
			return nil, failf("%s", err)
		case !sure:
			return nil, failf("%s", err).withHint("if the agent is new in the definitions, name their folder with --dir")
		}
	} else if folder.dir == "" {
		return nil, failf("%s holds no keys of a mesh", quoted(folder.state)).withHint("name the mesh with --dir")
	}
	definition, err := folder.load()
	if err != nil {
		return nil, err
	}
	if err := check(subjects.Permissions(definition)); err != nil {
		return nil, err
	}
	store, _, err = mesh.Keys(folder.state, definition, unlock())
	if err != nil {
		return nil, keysFailure(err, folder.state)
	}
	if err := make(store); err != nil {
		return nil, failf("%s", err)
	}
	return store, nil
}

// checkRole checks that exactly one scope is meant.
func checkRole(scopes []subjects.Scope, agent bcp.AgentName, role bcp.Role) error {
	var known []bcp.AgentName
	var roles []string
	found := false
	for _, s := range scopes {
		if len(known) == 0 || known[len(known)-1] != s.Agent {
			known = append(known, s.Agent)
		}
		if s.Agent == agent {
			roles = append(roles, s.Role.String())
			found = found || s.Role == role
		}
	}
	switch {
	case len(roles) == 0:
		return unknownAgent(string(agent), known)
	case role == 0 && len(roles) > 1:
		return failf("%s has several roles", agent).withHint("name one: --role %s", oneOf(roles))
	case role != 0 && !found:
		return failf("%s is no %s", agent, role).withHint("it is %s", oneOf(roles))
	}
	return nil
}

// keysFailure says what to do about keys that cannot be used.
func keysFailure(err error, state string) error {
	f := failf("the keys in %s cannot be used: %s", quoted(state), reasonOf(err))
	switch {
	case errors.Is(err, accounts.ErrUnsafe):
		return failf("the keys in %s cannot be used: %s", quoted(state), err).withHint("only you may read them: chmod -R go= %s", state)
	case errors.Is(err, bcp.ErrMoved):
		return movedFailure(err)
	case errors.Is(err, fs.ErrNotExist):
		return failf("there are no keys in %s yet", quoted(state)).withHint("bcpmesh up and bcpmesh creds issue make them")
	}
	return f
}

// moment writes a time for people.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// firstArgument completes the first argument alone.
func firstArgument(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// durationFlag is a flag that takes a duration such as 90s, 24h or 7d.
type durationFlag struct {
	value time.Duration
	least time.Duration
}

// String returns the duration, or nothing for none.
func (f *durationFlag) String() string {
	if f.value == 0 {
		return ""
	}
	return f.value.String()
}

// Type names the flag's values in the help.
func (f *durationFlag) Type() string { return "DURATION" }

// Set takes a duration of at least f.least and at most a hundred years.
func (f *durationFlag) Set(s string) error {
	const longest = 36525 * 24 * time.Hour
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		n, parseErr := strconv.ParseUint(days, 10, 16)
		d, err = time.Duration(n)*24*time.Hour, parseErr
	}
	if err != nil || d < f.least || d > longest {
		return fmt.Errorf("expected a duration of at least %s, such as 90m, 24h or 7d", f.least)
	}
	f.value = d
	return nil
}
