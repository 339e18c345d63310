package meshdir

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// NotReached says why there is no connection.
func NotReached(url string, err error) *cli.Failure {
	var f *cli.Failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, nats.ErrNoServers):
		f := cli.Failf("no mesh answers at %s", cli.Quoted(url)).WithHint("is it running? bcpmesh up starts it")
		f.Cause = err
		return f
	case agents.CredsRefused(err):
		return cli.Failf("the mesh at %s does not accept these credentials", cli.Quoted(url)).
			WithHint("it may be another mesh, or not know the agent yet; they may have expired, or be revoked: bcpmesh creds, where the mesh is, says which")
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return cli.Failf("the certificate of %s is from an authority that is not trusted", cli.Quoted(url)).WithHint("--ca FILE trusts the mesh's own: the operator has it")
	case errors.As(err, &other):
		return cli.Failf("the certificate of %s is for another host", cli.Quoted(url)).WithHint("use a name that bcpmesh up --listen has, or --tls-cert")
	case errors.As(err, &invalid):
		return cli.Failf("the certificate of %s is not valid: %s", cli.Quoted(url), err).WithHint("is one of the two clocks wrong? bcpmesh doctor checks the mesh's")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return cli.Failf("the mesh at %s has no TLS", cli.Quoted(url)).WithHint("its operator starts it with --tls; on the same machine, use nats:// without --ca")
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without "agents: connecting NAME"
	}
	return cli.Failf("no mesh answers at %s: %s", cli.Quoted(url), cli.FileReason(err))
}

// Failure turns what the gateway refused, or what did not come, into a
// failure.
func Failure(err error) error {
	var refused *agents.RefusedError
	var f *cli.Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused):
		return (&cli.Failure{Code: cli.ExitRefused, Message: string(refused.Code) + ": " + refused.Detail}).
			WithHint("%s", WhatToDo(refused.Code))
	case errors.Is(err, context.Canceled):
		return err // the frame says it
	case errors.Is(err, context.DeadlineExceeded):
		return cli.Failf("no reply in time").WithHint("give it more time with --wait")
	case errors.Is(err, nats.ErrPermissionViolation):
		return (&cli.Failure{Code: cli.ExitRefused, Message: "the server refuses it: this agent may not do that"}).
			WithHint("bcpmesh perms shows who may do what")
	case errors.Is(err, agents.ErrMessage):
		return cli.Failf("the gateway's reply cannot be read").WithHint("does --encoding match the agent's definition?")
	}
	return cli.Failf("%s", strings.TrimPrefix(err.Error(), "agents: "))
}

// StateFlags say which mesh a command of creds works on.
type StateFlags struct{ Dir, State string }

// Folder finds the mesh. With --state alone nothing says that the definitions
// at hand are those of the state: they are enough to make new keys from, and
// must not change keys that are there. There may also be none: dir is empty.
func (f *StateFlags) Folder() (Folder, error) {
	var folder Folder
	var err error
	if f.Dir != "" {
		folder, err = Argument([]string{f.Dir})
	} else {
		folder, err = Find(".")
	}
	if f.State == "" {
		return folder, err
	}
	if f.Dir != "" && err != nil {
		return Folder{}, err
	}
	info, err := os.Stat(f.State)
	if err == nil && !info.IsDir() {
		return Folder{}, cli.Failf("%s is not a folder", cli.Quoted(f.State))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Folder{}, cli.Failf("%s cannot be read: %s", cli.Quoted(f.State), cli.FileReason(err))
	}
	folder.State = f.State
	return folder, nil
}

// Take has the folder of an argument, if there is one, take the place of --dir.
func (f *StateFlags) Take(args []string) error {
	if len(args) == 0 {
		return nil
	}
	f.Dir = args[0]
	_, err := Argument(args)
	return err
}

// Load finds the mesh, and reads its definitions.
func (f *StateFlags) Load() (Folder, *bcp.Mesh, error) {
	folder, err := f.Folder()
	if err != nil {
		return folder, nil, err
	}
	def, err := folder.Load()
	return folder, def, err
}

// KeysFailure says what to do about keys that cannot be used.
func KeysFailure(err error, state string) error {
	f := cli.Failf("the keys in %s cannot be used: %s", cli.Quoted(state), cli.FileReason(err))
	switch {
	case errors.Is(err, accounts.ErrUnsafe):
		return cli.Failf("the keys in %s cannot be used: %s", cli.Quoted(state), err).WithHint("only you may read them: chmod -R go= %s", state)
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failf("there are no keys in %s yet", cli.Quoted(state)).WithHint("bcpmesh up and bcpmesh creds issue make them")
	}
	return f
}

// RoleFlag is a flag for the role of an agent that has several.
type RoleFlag struct {
	Role cli.WordFlag `words:"controller reader approver auditor keeper" placeholder:"ROLE"`
}

// Parsed returns the role that was named, or zero.
func (f *RoleFlag) Parsed() (role bcp.Role) {
	_ = role.UnmarshalText([]byte(f.Role.Value)) // one of the words, or none
	return role
}

// KeyStore opens the key store of a mesh.
func (f *StateFlags) KeyStore() (Folder, *accounts.Store, error) {
	folder, err := f.Folder()
	if err != nil {
		return folder, nil, err
	}
	store, err := accounts.Open(folder.State, Unlock())
	if err != nil {
		return folder, nil, KeysFailure(err, folder.State)
	}
	return folder, store, nil
}

// WasExported reports whether the accounts of a mesh were given to a cluster.
func WasExported(state string) bool {
	store, err := accounts.Open(state)
	if err != nil {
		return false
	}
	remotes, err := store.Remotes()
	return err == nil && len(remotes) > 0
}

// AgentArgument reads the name of an agent from a command line.
func AgentArgument(command, name string) (bcp.AgentName, error) {
	agent, err := bcp.ParseAgentName(name)
	if err != nil {
		return "", cli.Usagef("%s: %s is not a valid name: %s", command, cli.Quoted(name), err)
	}
	return agent, nil
}

// AgentArguments reads several.
func AgentArguments(command string, names []string) ([]bcp.AgentName, error) {
	var list []bcp.AgentName
	for _, name := range names {
		agent, err := AgentArgument(command, name)
		if err != nil {
			return nil, err
		}
		list = append(list, agent)
	}
	return list, nil
}

// CheckKeys refuses a state that has lost its keys: with new ones the mesh would
// not find its journal, and begin another without a word.
func CheckKeys(state string) error {
	if _, err := os.Stat(server.StreamsOf(state)); err != nil {
		return nil // a new state, or one for the mesh to judge
	}
	if _, err := accounts.Open(state); errors.Is(err, fs.ErrNotExist) {
		return cli.Failf("the state folder %s holds a journal but not its keys", cli.Quoted(state)).
			WithHint("restore the keys from a backup, or start with a new --state")
	}
	return nil
}

// WhatToDo says what a person who has the command line may do about a refusal: the
// protocol's own sentence is for agents.
func WhatToDo(c bcp.Code) string {
	switch c {
	case bcp.BudgetExhausted, bcp.QueryLimitReached:
		return "bcpmesh session open --renew begins a new epoch, with a full budget; bcpmesh ledger show says what was spent"
	case bcp.EscalationLimitReached:
		return "bcpmesh session close, then bcpmesh session open"
	case bcp.EscalationRequired:
		return "say why, in your own words: --because '…'"
	case bcp.ApprovalQueueFull:
		return "bcpmesh approvals shows what waits"
	}
	return c.Info().Decision
}
