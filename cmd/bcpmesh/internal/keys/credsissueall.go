package keys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// issuedFile is one file of several.
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
		keys := make([]string, len(all))
		for i, c := range all {
			keys[i] = c.PublicKey
		}
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
	if p.Out.JSON {
		return p.Out.Value(list)
	}
	for _, l := range list {
		p.Out.Printf("%s\n", cli.Plain(l.File))
	}
	if len(all) > 0 {
		p.Out.Talkf("%s, %s: keep each as you keep a password", cli.Count(len(all), "file"), lasts(all[0].User))
	}
	return nil
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
