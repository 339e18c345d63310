package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	return group("creds", "Issue and inspect the credentials of agents and people",
		`Issue and inspect the credentials of agents and people: .creds files, which any
NATS client takes. Each is for one agent in one role, and holds a private key.`,
		`  bcpmesh creds issue researcher --out researcher.creds
  bcpmesh creds list`,
		credsIssueCommand(p), credsListCommand(p), credsShowCommand(p))
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
	expires := durationFlag{least: time.Second}
	role := wordFlag{words: []string{"controller", "reader", "approver", "auditor"}}
	cmd := &cobra.Command{
		Use:   "issue AGENT",
		Short: "Make the credentials of an agent or a person",
		Long: `Make the credentials of an agent, or of an approver or auditor, and write them to
a new file that only its owner may read. An agent with several roles needs one
file for each, and --role says which.

It works while the mesh runs, and while it rests. The first time it makes the
keys of the mesh, in the state folder. The file holds no permissions: an edit
of the definitions needs no new file. An agent that the running mesh does not
know yet can connect once the mesh has loaded its definition.`,
		Example: `  bcpmesh creds issue researcher --out researcher.creds
  bcpmesh creds issue alice --role approver --out alice.creds --expires 24h`,
		Args:              arguments(1, "AGENT"),
		ValidArgsFunction: firstArgument(completeAgents(true)),
		RunE: func(_ *cobra.Command, args []string) error {
			var asked bcp.Role
			if role.value != "" {
				if err := asked.UnmarshalText([]byte(role.value)); err != nil {
					return usagef("creds issue: --role: %s", err)
				}
			}
			return issueCreds(p, where, args[0], asked, out, expires.value)
		},
	}
	where.addTo(cmd)
	role.addTo(cmd, "role", "role of the agent, where it has several")
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write; it must not exist")
	cmd.Flags().Var(&expires, "expires", "refuse the credentials after this time (default: never)")
	return cmd
}

func issueCreds(p *program, where stateFlags, agent string, role bcp.Role, out string, expires time.Duration) error {
	name, err := bcp.ParseAgentName(agent)
	if err != nil {
		return usagef("creds issue: %s is no name: %s", quoted(agent), err)
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
	store, creds, err := issue(folder, where.dir != "" || where.state == "", name, role, expires)
	if err != nil {
		return err
	}
	if err := creds.WriteFile(out); err != nil {
		// Nobody has them: let nobody use them.
		return failf("%s cannot be written: %s", quoted(out), reasonOf(errors.Join(err, store.Revoke(creds.PublicKey, time.Now()))))
	}
	if p.out.json {
		return p.out.value(struct {
			accounts.User
			File string `json:"file"`
		}{creds.User, out})
	}
	lasts := "never expires"
	if !creds.Expires.IsZero() {
		lasts = "expires " + moment(creds.Expires)
	}
	p.out.printf("%s\n", plain(out))
	p.out.talkf("%s as %s, %s: keep it as you keep a password", creds.Agent, creds.Role, lasts)
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
func issue(folder meshFolder, sure bool, agent bcp.AgentName, role bcp.Role, expires time.Duration) (*accounts.Store, accounts.Creds, error) {
	none := accounts.Creds{}
	store, err := accounts.Open(folder.state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, none, keysFailure(err, folder.state)
	}
	if err == nil {
		creds, err := store.Issue(agent, role, expires)
		switch {
		case err == nil:
			return store, creds, nil
		case !errors.Is(err, accounts.ErrUnknown):
			return nil, none, failf("%s", err)
		case !sure:
			return nil, none, failf("%s", err).withHint("if the agent is new in the definitions, name their folder with --dir")
		}
	} else if folder.dir == "" {
		return nil, none, failf("%s holds no keys of a mesh", quoted(folder.state)).withHint("name the mesh with --dir")
	}
	definition, err := folder.load()
	if err != nil {
		return nil, none, err
	}
	if err := checkRole(subjects.Permissions(definition), agent, role); err != nil {
		return nil, none, err
	}
	store, _, err = mesh.Keys(folder.state, definition)
	if errors.Is(err, fs.ErrExist) { // another process was making them
		store, _, err = mesh.Keys(folder.state, definition)
	}
	if err != nil {
		return nil, none, keysFailure(err, folder.state)
	}
	creds, err := store.Issue(agent, role, expires)
	if err != nil {
		return nil, none, failf("%s", err)
	}
	return store, creds, nil
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
	case errors.Is(err, fs.ErrNotExist):
		return failf("there are no keys in %s yet", quoted(state)).withHint("bcpmesh up and bcpmesh creds issue make them")
	}
	return f
}

func credsListCommand(p *program) *cobra.Command {
	var where stateFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the credentials that were issued",
		Long: `List the credentials that were issued, oldest first: for whom, in which role,
until when. The list holds public keys alone.

With --json the result is a list of {public_key, agent, role, issued, expires,
revoked, status}.`,
		Example: `  bcpmesh creds list
  bcpmesh creds list --dir ./office --json`,
		Args: arguments(0),
		RunE: func(*cobra.Command, []string) error {
			folder, err := where.folder()
			if err != nil {
				return err
			}
			store, err := accounts.Open(folder.state)
			if err != nil {
				return keysFailure(err, folder.state)
			}
			users, err := store.Users()
			if err != nil {
				return err
			}
			return p.showUsers(users)
		},
	}
	where.addTo(cmd)
	return cmd
}

type listedUser struct {
	accounts.User
	Status string `json:"status"` // valid, expired or revoked
}

func (p *program) showUsers(users []accounts.User) error {
	var list []listedUser
	var rows [][]string
	for _, u := range users {
		l := listedUser{u, statusOf(u, time.Now())}
		list = append(list, l)
		expires := "never"
		if !u.Expires.IsZero() {
			expires = moment(u.Expires)
		}
		rows = append(rows, []string{string(u.Agent), u.Role.String(), moment(u.Issued), expires, l.Status, u.PublicKey})
	}
	if p.out.json {
		return p.out.value(list)
	}
	if len(rows) == 0 {
		p.out.talkf("none were issued yet")
		return nil
	}
	p.out.table([]string{"agent", "role", "issued", "expires", "status", "public key"}, rows)
	return nil
}

func statusOf(u accounts.User, now time.Time) string {
	switch {
	case !u.Revoked.IsZero():
		return "revoked"
	case !u.Expires.IsZero() && !now.Before(u.Expires):
		return "expired"
	}
	return "valid"
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
