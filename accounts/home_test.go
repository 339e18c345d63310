package accounts_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A mesh that was compiled as a whole has all agents on shard 0. They may be put on
// others until somebody of their island was given creds, whatever became of those since,
// or a cluster their permissions. Then they stay, and the store is what it was.
//
// covers P4.5, BCP-34
func TestWhatKeepsAShard(t *testing.T) {
	t.Parallel()
	issue := func(agent bcp.AgentName, role bcp.Role, expires time.Duration, options ...accounts.IssueOption) func(*testing.T, *accounts.Store, string) {
		return func(t *testing.T, store *accounts.Store, _ string) {
			t.Helper()
			if _, err := store.Issue(agent, role, expires, options...); err != nil {
				t.Fatal(err)
			}
		}
	}
	then := func(steps ...func(*testing.T, *accounts.Store, string)) func(*testing.T, *accounts.Store, string) {
		return func(t *testing.T, store *accounts.Store, folder string) {
			t.Helper()
			for _, step := range steps {
				step(t, store, folder)
			}
		}
	}
	on := func(f func(*accounts.Store) error) func(*testing.T, *accounts.Store, string) {
		return func(t *testing.T, store *accounts.Store, _ string) {
			t.Helper()
			if err := f(store); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := subjects.Permissions(sharded().Whole())
	const free, stays = false, true
	for name, c := range map[string]struct {
		stays bool
		done  func(*testing.T, *accounts.Store, string)
	}{
		"nothing":                 {free, then()},
		"compiled often":          {free, on(func(s *accounts.Store) error { _, err := accounts.Compile(s, whole, now.Add(time.Hour)); return err })},
		"creds of another island": {free, then(issue("boss", 0, 0), issue("clerk", 0, 0))},
		"creds of people":         {free, then(issue("kim", bcp.RoleApprover, 0), issue(bcp.Operator, 0, 0, accounts.ForItself))},
		"an invitation": {free, on(func(s *accounts.Store) error {
			_, err := s.Invite("chief", 0, time.Hour, 0, accounts.Restriction{})
			return err
		})},
		"its key replaced": {free, on(func(s *accounts.Store) error { return s.RotateScope("chief", 0, time.Hour) })},
		"logins of gateways": {free, on(func(s *accounts.Store) error {
			_, _, err := s.Gateway("one", 2)
			_, pushing := s.Push()
			return errors.Join(err, pushing)
		})},
		"it is gone for a while": {free, on(func(s *accounts.Store) error {
			m := sharded().Whole()
			m.Agents, m.Channels = m.Agents[:1], nil
			_, err := accounts.Compile(s, subjects.Permissions(m), now.Add(time.Hour))
			return err
		})},

		"creds":                  {stays, issue("chief", 0, 0)},
		"creds of its peer":      {stays, issue("scribe", 0, 0)},
		"creds of a command":     {stays, issue("scribe", 0, time.Hour, accounts.ForItself)},
		"creds of all":           {stays, on(func(s *accounts.Store) error { _, err := s.IssueAll(0); return err })},
		"creds that are revoked": {stays, then(issue("chief", 0, 0), on(func(s *accounts.Store) error { _, err := s.RevokeAll("chief", 0); return err }))},
		"creds that are forgotten": {stays, then(issue("chief", 0, time.Second), on(func(s *accounts.Store) error {
			_, err := accounts.Compile(s, whole, time.Now().Add(100*24*time.Hour))
			users, listed := s.Users()
			if len(users) > 0 {
				listed = fmt.Errorf("there are %d users", len(users))
			}
			return errors.Join(err, listed)
		}))},
		"somebody who joined": {stays, on(func(s *accounts.Store) error {
			token, err := s.Invite("chief", 0, time.Hour, 0, accounts.Restriction{})
			if err != nil {
				return err
			}
			pair, err := nkeys.CreateUser()
			if err != nil {
				return err
			}
			key, err := pair.PublicKey()
			if err != nil {
				return err
			}
			proof, err := pair.Sign(bcp.JoinStatement(token.PublicKey, key, bcp.Digest{}))
			if err != nil {
				return err
			}
			_, _, err = s.Join(token.PublicKey, key, bcp.Digest{}, proof)
			return err
		})},
		"permissions for a cluster": {stays, on(func(s *accounts.Store) error {
			_, err := accounts.CompileCluster(s, whole, now.Add(time.Hour))
			return err
		})},
		"islands that nobody knows": {stays, on(func(s *accounts.Store) error {
			bare := slices.Clone(whole)
			for i := range bare {
				bare[i].Island = ""
			}
			_, err := accounts.Compile(s, bare, now.Add(time.Hour))
			return err
		})},
		"a record of before": {stays, func(t *testing.T, _ *accounts.Store, folder string) {
			t.Helper()
			file := filepath.Join(folder, "keys", "state.json")
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, island := range []string{"boss", "chief"} {
				content = bytes.ReplaceAll(content, []byte(`,
   "free": "`+island+`"`), nil)
			}
			if bytes.Contains(content, []byte("free")) {
				t.Fatalf("%s", content)
			}
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, folder := newStore(t)
			compile(t, store, whole)
			if settled, err := store.Settled(); err != nil || len(settled) > 0 {
				t.Fatalf("for good are %v, %v", settled, err)
			}
			c.done(t, store, folder)
			before, err := store.Settled()
			if _, known := before["chief"]; err != nil || known != c.stays || before["chief"] != 0 {
				t.Errorf("for good are %v, %v", before, err)
			}
			b, err := accounts.CompileCluster(store, subjects.Permissions(sharded()), time.Now().Add(200*24*time.Hour))
			if c.stays {
				if !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "chief is on shard 1, and was on shard 0") {
					t.Errorf("moved: %v", err)
				}
				if after, err := store.Settled(); err != nil || !maps.Equal(before, after) {
					t.Errorf("a refusal has changed %v to %v, %v", before, after, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			read, err := accounts.Enforced(b.Operator, tokensOf(b))
			if err != nil {
				t.Fatal(err)
			}
			if lines := read.Differences(subjects.Permissions(sharded())); len(lines) > 0 {
				t.Errorf("the claims differ: %q", lines)
			}
			if n := len(claimsOf(t, b, "CONTROLLERS").SigningKeys) + len(claimsOf(t, b, "CONTROLLERS.1").SigningKeys); n != 2 {
				t.Errorf("%d keys of Controllers", n)
			}
			after, err := store.Settled()
			if want := (map[bcp.AgentName]int{"boss": 0, "clerk": 0, "chief": 1, "scribe": 1}); err != nil || !maps.Equal(after, want) {
				t.Errorf("for good are %v, %v", after, err)
			}
			if _, err := accounts.Compile(store, whole, time.Now().Add(300*24*time.Hour)); !errors.Is(err, bcp.ErrMoved) {
				t.Errorf("and back: %v", err)
			}
		})
	}
}

// Who joins an island that has creds stays with it, also when the channel is gone again,
// and who left one before somebody had creds does not. An account that other agents have
// left is still there: a running server has it.
//
// covers P4.5
func TestIslandsKeepAShardTogether(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	at := now
	office := func(shard int, extra ...bcp.AgentName) *bcp.Mesh {
		m := sharded().Whole()
		for _, name := range extra {
			m.Agents = append(m.Agents, bcp.Agent{Name: name, Reader: true, Shard: shard})
		}
		slices.SortFunc(m.Agents, func(a, b bcp.Agent) int { return strings.Compare(string(a.Name), string(b.Name)) })
		return m
	}
	join := func(m *bcp.Mesh, reader bcp.AgentName) *bcp.Mesh {
		m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: "chief", Reader: reader}})
		return m
	}
	run := func(m *bcp.Mesh) error {
		at = at.Add(time.Minute)
		_, err := accounts.Compile(store, subjects.Permissions(m), at)
		return err
	}
	must := func(m *bcp.Mesh) {
		t.Helper()
		if err := run(m); err != nil {
			t.Fatal(err)
		}
	}
	must(join(office(0, "desk", "guest"), "guest"))
	must(office(0, "desk")) // the guest is gone
	if _, err := store.Issue("chief", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := run(office(1, "desk", "guest")); err != nil {
		t.Errorf("those who had nothing to do with it: %v", err)
	}
	must(join(office(0, "desk", "guest"), "desk"))
	if err := run(office(1, "desk")); !errors.Is(err, bcp.ErrMoved) || !strings.Contains(err.Error(), "desk") {
		t.Errorf("the desk, whom the chief could ask: %v", err)
	}
	must(office(1, "guest"))
	settled, err := store.Settled()
	if want := (map[bcp.AgentName]int{"chief": 0, "scribe": 0, "desk": 0}); err != nil || !maps.Equal(settled, want) {
		t.Errorf("for good are %v, %v", settled, err)
	}

	many := make([]bcp.AgentName, accounts.AgentsPerAccount)
	for i := range many {
		many[i] = bcp.AgentName(fmt.Sprint("reader", i))
	}
	must(office(0, many...))
	at = at.Add(time.Minute)
	b, err := accounts.Compile(store, subjects.Permissions(office(0)), at)
	if _, ok := b.Account("READERS-2"); err != nil || !ok {
		t.Errorf("the second account is gone: %v", err)
	}
}
