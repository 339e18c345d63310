package server_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
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
	monitor, err := b.Login(b.bundle.Monitor)
	if err != nil {
		b.t.Fatal(err)
	}
	defer monitor.Close()
	scope := must(nkeys.CreateAccount())
	claims := must(jwt.DecodeAccountClaims(b.accountToken(accounts.Readers)))
	claims.SigningKeys.Add(must(scope.PublicKey()))
	if _, err := monitor.Request(subjects.UpdateClaims, []byte(must(claims.Encode(operator))), patience); err != nil {
		b.t.Fatal(err)
	}
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

// Where the operator's signing key is replaced the server begins again: what the old
// one signs is worth nothing from then on. Streams have their messages, agents come back with the creds
// that they have, and each is shown to leave and to come.
//
// covers A-SYS, A-RECONN, BCP-19, P11.1
func TestReplacedOperatorSignsNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.AdmitAll() // this is about the server behind the entrance
	thief := b.key("operator-signing")
	if !b.smuggle(thief) {
		t.Fatal("the attack does not work with the key itself")
	}
	gateway := b.gateway()
	others := make([]*nats.Conn, 2*server.MaxComing+1) // come back in the middle of the beginning
	for i := range others {
		others[i] = b.gateway()
	}
	others[0].Close()
	js := must(natsjs.New(gateway))
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "BCP_COMMIT", Subjects: []string{"bcp.v1.commit.>"}}); err != nil {
		t.Fatal(err)
	}
	must(js.Publish(t.Context(), "bcp.v1.commit.0", []byte("first")))
	shown := make(chan server.Connection, 16)
	unwatch, err := b.Watch(func(c server.Connection) { shown <- c })
	noError(t, err)
	defer unwatch()
	creds := b.issue("researcher", bcp.RoleReader)
	back := make(chan struct{}, 16)
	agent, err := nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.Timeout(patience), nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	noError(t, err)
	defer agent.Close()
	next := func(connected bool) {
		t.Helper()
		select {
		case c := <-shown:
			if c.Connected != connected || c.UserKey != creds.PublicKey || c.Agent != "researcher" {
				t.Fatalf("%+v", c)
			}
		case <-time.After(patience):
			t.Fatal("nothing is shown")
		}
	}
	next(true)
	for name, rotate := range map[string]func() error{
		"the operator's signing key": func() error { return b.replaceKeys("operator-signing") },
		"the operator":               func() error { return b.replaceKeys("operator", "operator-signing") },
	} {
		stolen := b.key("operator-signing")
		noError(t, rotate())
		b.bundle = b.compile(b.scopes)
		noError(t, b.UpdateAccounts(t.Context(), b.bundle))
		next(false)
		next(true)
		select {
		case <-back:
		case <-time.After(patience):
			t.Fatal("the agent does not come back")
		}
		if b.smuggle(stolen) {
			t.Errorf("%s: the old one signs", name)
		}
		if b.smuggle(must(nkeys.CreateOperator())) {
			t.Errorf("%s: a foreign one signs", name)
		}
	}
	for _, other := range others[1:] {
		for deadline := time.Now().Add(patience); !other.IsConnected(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a connection of this process does not come back")
			}
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stream, err := js.Stream(t.Context(), "BCP_COMMIT")
		if err == nil {
			if first, err := stream.GetMsg(t.Context(), 1); err != nil || string(first.Data) != "first" {
				t.Errorf("%v: %v", first, err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Whoever hears of connections may be waiting for the server: it begins again all the
// same, and lets agents in when all have been shown to leave.
//
// covers A-RECONN, BCP-19
func TestServerBeginsWhileNobodyListens(t *testing.T) {
	t.Parallel()
	b := start(t)
	agent := b.connect("researcher", bcp.RoleReader)
	shown, listens := make(chan server.Connection, 16), make(chan struct{})
	listen := sync.OnceFunc(func() { close(listens) })
	unwatch, err := b.Watch(func(c server.Connection) {
		if !c.Connected {
			<-listens
		}
		shown <- c
	})
	noError(t, err)
	t.Cleanup(func() { listen(); unwatch() })
	if c := <-shown; !c.Connected {
		t.Fatalf("%+v", c)
	}
	noError(t, b.replaceKeys("operator-signing"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	noError(t, b.UpdateAccounts(ctx, b.compile(b.scopes)))
	listen()
	for _, connected := range []bool{false, true} {
		select {
		case c := <-shown:
			if c.Connected != connected {
				t.Fatalf("%+v", c)
			}
		case <-time.After(patience):
			t.Fatal("nothing is shown")
		}
	}
	flush(t, agent.Conn)
}

// Claims of accounts are large: they are read once, and not by the agents that come
// first.
//
// covers A-RECONN
func TestServerKnowsAccountsBeforeAgentsCome(t *testing.T) {
	t.Parallel()
	b := start(t)
	if n := b.LoadedAccounts(); n < len(b.bundle.Accounts) {
		t.Errorf("%d of %d accounts are known", n, len(b.bundle.Accounts))
	}
}

// covers A-RECONN
func TestShutServerLetsNobodyIn(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *server.Config) { c.Shut = true })
	if err := tryConnect(b.URL(), "", must(nkeys.CreateUser())); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it is not closed: %v", err)
	}
	b.Open()
	b.connect("researcher", bcp.RoleReader)
}
