package server_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// smuggle has the server take a user that none of the mesh's keys has signed: by
// claims of its account that an operator's key signs, and that whoever is the monitor
// hands in. It reports whether the server lets the user in then.
func (b *bench) smuggle(operator nkeys.KeyPair) bool {
	b.t.Helper()
	monitor := must(b.Login(b.bundle.Monitor))
	defer monitor.Close()
	scope := must(nkeys.CreateAccount())
	claims := must(jwt.DecodeAccountClaims(b.accountToken(accounts.Readers)))
	claims.SigningKeys.Add(must(scope.PublicKey()))
	must(monitor.Request(subjects.UpdateClaims, []byte(must(claims.Encode(operator))), patience))
	user := must(nkeys.CreateUser())
	forged := jwt.NewUserClaims(must(user.PublicKey()))
	forged.IssuerAccount = claims.Subject
	return tryConnect(b.URL(), must(forged.Encode(scope)), user) == nil
}

// replaceKeys puts other keys of the operator into the store.
func (b *bench) replaceKeys(names ...string) error {
	for _, name := range names {
		seed := must(must(nkeys.CreateOperator()).Seed())
		if err := os.WriteFile(filepath.Join(b.state, accounts.KeyFolder, name+".nk"), seed, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Where a key of the operator is replaced a running server takes no accounts, and goes on
// as it was. What the old one signs is worth nothing from its next start on, and agents
// come back with the creds that they have.
//
// covers A-SYS, A-RECONN, BCP-19, P11.1
func TestReplacedOperatorSignsNothing(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"the operator's signing key": {"operator-signing"}, "the operator": {"operator", "operator-signing"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			agent := b.connect("researcher", bcp.RoleReader)
			creds := b.issue("researcher", bcp.RoleReader)
			stolen := b.key("operator-signing")
			noError(t, b.replaceKeys(keys...))
			before := b.bundle
			b.bundle = b.compile(b.scopes)
			err := b.UpdateAccounts(t.Context(), b.bundle)
			stopIf(t, !errors.Is(err, server.ErrUpdate), "a running server: %v", err)
			flush(t, agent.Conn)
			b.bundle = before
			b.AdmitAll() // the rest is about the server behind the entrance
			stopIf(t, !b.smuggle(stolen), "the attack does not work with the key itself")
			b.bundle = b.compile(b.scopes)
			noError(t, b.Stop(t.Context()))
			b.Server = must(server.Start(t.Context(), server.Config{StateDir: b.state, Bundle: b.bundle}))
			b.AdmitAll()
			for whose, key := range map[string]nkeys.KeyPair{"the old": stolen, "a foreign": must(nkeys.CreateOperator())} {
				failIf(t, b.smuggle(key), "%s one signs", whose)
			}
			back := must(nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.Timeout(patience)))
			back.Close()
		})
	}
}

// Claims of accounts are large: they are read once, and not by the agents that come
// first.
//
// covers A-RECONN
func TestShutServerLetsNobodyIn(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *server.Config) { c.Shut = true })
	n := b.LoadedAccounts()
	failIf(t, n < len(b.bundle.Accounts), "%d of %d accounts are known", n, len(b.bundle.Accounts))
	err := tryConnect(b.URL(), "", must(nkeys.CreateUser()))
	failIf(t, !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET), "it is not closed: %v", err)
	b.Open()
	b.connect("researcher", bcp.RoleReader)
}
