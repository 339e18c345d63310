package keys

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Issue writes credentials.
type Issue struct {
	meshdir.StateFlags
	restrictionFlags
	meshdir.RoleFlag
	Out, Passkey string
	Expires      cli.DurationFlag `least:"1s"`
}

func (o *Issue) Run(ctx context.Context, p *cli.Program, args []string) error {
	r, err := o.restriction("creds issue")
	switch {
	case err != nil:
		return err
	case o.Out == "":
		return cli.Usagef("creds issue: expected --out FILE").WithHint("for example --out %s.creds", args[0])
	}
	options := []accounts.IssueOption{accounts.Restricted(r)}
	if o.Passkey != "" {
		hash, err := readPasskey(o.Passkey)
		if err != nil {
			return err
		}
		options = append(options, accounts.BoundTo(hash))
	}
	folder, err := o.Folder()
	if err != nil {
		return err
	}
	agent, err := meshdir.AgentArgument("creds issue", args[0])
	if err == nil {
		err = cli.CheckNewFile(o.Out)
	}
	if err != nil {
		return err
	}
	var creds accounts.Creds
	as := o.Parsed()
	store, err := issueBy(folder, o.Dir != "" || o.State == "", func(store *accounts.Store) (err error) {
		creds, err = store.Issue(agent, as, o.Expires.Value, options...)
		return err
	}, func(scopes []subjects.Scope) error { return checkRole(scopes, agent, as) })
	if err != nil {
		return err
	}
	if err := creds.WriteFile(o.Out); err != nil { // nobody can use them
		return cli.Failf("%s cannot be written: %s", cli.Quoted(o.Out), cli.FileReason(errors.Join(err, store.Revoke(creds.PublicKey))))
	}
	if len(creds.Restriction.Lines()) > 0 { // the server does not know of it yet
		if _, err := follow(ctx, p, folder, store); err != nil {
			return err
		}
	}
	return p.Out.Show(issuedFile{creds.User, o.Out}, func() {
		lasts := "never expires"
		if !creds.Expires.IsZero() {
			lasts = "expires " + cli.Moment(creds.Expires)
		}
		p.Out.Printf("%s\n", cli.Plain(o.Out))
		p.Out.Talkf("%s as %s, %s: keep it as you keep a password", creds.Agent, creds.Role, strings.Join(append([]string{lasts}, creds.Lines()...), ", "))
	})
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

// restrictionFlags say from where credentials are good.
type restrictionFlags struct {
	Source []string `commas:"apart"` // networks
}

func (f *restrictionFlags) restriction(command string) (r accounts.Restriction, err error) {
	for _, text := range f.Source {
		prefix, err := netip.ParsePrefix(text)
		if address, parseErr := netip.ParseAddr(text); parseErr == nil && address.Zone() == "" {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return r, cli.Usagef("%s: --source: %s is not a network", command, cli.Quoted(text)).WithHint("for example 10.1.0.0/16 or 2001:db8::/32")
		}
		r.Sources = append(r.Sources, prefix)
	}
	if r, err = r.Checked(); err != nil {
		return r, cli.Usagef("%s: %s", command, err)
	}
	return r, nil
}

// issueBy has make do it, with the keys of the mesh, which it makes first where there
// are none, and again if the definitions know more than the keys and check finds nothing
// wrong with them. What the mesh last ran with decides about who there is; an agent that
// is new in the definitions is added to it, if it is sure that they belong together.
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
			return nil, err
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
	return store, make(store)
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
