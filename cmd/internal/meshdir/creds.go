package meshdir

import (
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// ReadCreds reads a creds file for a command that connects with it.
func ReadCreds(name string) (accounts.Holder, error) {
	content, err := cli.ReadFile(name, cli.MaxSmallFile)
	if err != nil {
		return accounts.Holder{}, err
	}
	who, err := accounts.ParseHolder(content)
	if err != nil {
		return accounts.Holder{}, cli.Failf("%s holds no credentials of a mesh: %s", cli.Quoted(name), err).WithHint("bcpmesh creds issue makes them")
	}
	return who, nil
}

// NotTaken is [NotReached] for a creds file. A server does not tell strangers why it
// refuses them: the file itself, and the keys of the mesh if they are near it, may.
func NotTaken(url, creds string, err error) *cli.Failure {
	f := NotReached(url, err)
	if !agents.CredsRefused(err) {
		return f
	}
	who, failed := ReadCreds(creds)
	if failed != nil {
		return f
	}
	if folder, failed := Find(filepath.Dir(creds)); failed == nil {
		_ = Judge(&who, folder.State) // without the keys it is what the file says
	}
	if errors.Is(err, nats.ErrAuthRevoked) {
		who.Status = "revoked"
	}
	if who.Status == "revoked" || who.Status == "expired" {
		return cli.Failf("the credentials in %s are %s", cli.Quoted(creds), who.Status).
			WithHint("the operator issues others: bcpmesh creds issue %s --role %s --out FILE", who.Agent, who.Role)
	}
	return f
}

// Judge sets the status of credentials to what the keys in a state folder say.
func Judge(who *accounts.Holder, state string) error {
	store, err := accounts.Open(state)
	if err != nil {
		return KeysFailure(err, state)
	}
	return who.Judge(store)
}
