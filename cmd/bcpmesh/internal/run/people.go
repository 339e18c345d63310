package run

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

const (
	passkeySuffix, credsSuffix = ".passkey", ".creds"
	// maxPeople bounds the passkeys of a folder that are read.
	maxPeople = 1000
)

// people are those who enrolled. Each has two files in a folder: a passkey, and creds that
// are bound to it.
type people struct {
	dir string
	who *client.Flags
	log hclog.Logger
	// crowded says once that there are too many of them.
	crowded sync.Once
}

// find returns the first passkey of the folder that is meant, and the name of its file
// without the suffix, if there is one. Beyond maxPeople the last by name are left out.
func (p *people) find(meant func(accounts.Passkey) bool) (stem string, found accounts.Passkey) {
	names, _ := filepath.Glob(filepath.Join(p.dir, "*"+passkeySuffix)) // a bad pattern finds none
	if len(names) > maxPeople {
		p.crowded.Do(func() {
			p.log.Warn("there are too many passkeys: the last by name cannot log in; remove those of people who left", "folder", p.dir, "passkeys", len(names), "read", maxPeople)
		})
		names = names[:maxPeople]
	}
	for _, name := range names {
		content, err := cli.ReadSmall(name)
		if err != nil {
			continue
		}
		if of, err := accounts.ParsePasskey(content); err == nil && of.ID != "" && meant(of) {
			return strings.TrimSuffix(name, passkeySuffix), of
		}
	}
	return "", accounts.Passkey{}
}

// Passkey implements [web.People].
func (p *people) Passkey(id string) (accounts.Passkey, bool) {
	stem, found := p.find(func(of accounts.Passkey) bool { return of.ID == id })
	return found, stem != ""
}

// errNotBound says that creds are not those of an approver with the passkey next to them.
var errNotBound = errors.New("the creds stored with the passkey are not an approver's, or are not bound to it")

// Connect implements [web.People].
func (p *people) Connect(ctx context.Context, passkey accounts.Passkey) (person *web.Person, err error) {
	defer func() {
		if err != nil {
			p.log.Warn("somebody with a passkey cannot log in", "error", err)
		}
	}()
	hash, err := passkey.Hash()
	if err != nil {
		return nil, err
	}
	stem, _ := p.find(func(of accounts.Passkey) bool { return of == passkey })
	if stem == "" {
		return nil, errNotBound
	}
	creds := stem + credsSuffix
	who, err := meshdir.ReadCreds(creds)
	if err != nil {
		return nil, err
	}
	if who.Role != bcp.RoleApprover || who.Passkey != hash {
		return nil, errNotBound
	}
	url, secure, err := p.who.At()
	if err != nil {
		return nil, err
	}
	c, err := agents.Connect(ctx, url, agents.CredsFile(creds), agents.Options{Name: who.Agent, NATS: secure, Logger: hclog.NewNullLogger()})
	if err != nil {
		return nil, err
	}
	return &web.Person{Name: who.Agent, Approver: agents.NewApprover(c), Passkey: passkey, Close: c.Close,
		Over: func() bool { return !c.NATS().IsConnected() && agents.CredsRefused(c.NATS().LastError()) }}, nil
}

// Join implements [web.People].
func (p *people) Join(ctx context.Context, token string, passkey accounts.Passkey) (name bcp.AgentName, err error) {
	defer func() {
		if err != nil {
			p.log.Warn("somebody with an invitation cannot enrol", "error", err)
		} else {
			p.log.Info("somebody enrolled a passkey: compare its words with those of bcpmesh creds", "name", name)
		}
	}()
	hash, err := passkey.Hash()
	if err != nil {
		return "", err
	}
	if names, err := filepath.Glob(filepath.Join(p.dir, "*"+passkeySuffix)); err != nil || len(names) >= maxPeople {
		return "", errors.Join(fmt.Errorf("%s has %d passkeys: remove those of people who left", p.dir, len(names)), err)
	}
	url, secure, err := p.who.At()
	if err != nil {
		return "", err
	}
	creds, name, _, err := agents.Join(ctx, url, token, hash, secure...)
	if err != nil {
		return "", err
	}
	file, err := json.Marshal(passkey)
	if err != nil {
		return "", err
	}
	stem := filepath.Join(p.dir, string(name)+"."+hex.EncodeToString(hash[:4]))
	if err := cli.WriteOver(stem+credsSuffix, creds, 0o600); err != nil {
		return "", err
	}
	return name, cli.WriteOver(stem+passkeySuffix, file, 0o600)
}

const (
	// renewal is how long connections are used whose credentials this process made for
	// itself: half as long as these are good.
	renewal = client.OwnCredsTTL / 2
	// lookPause is between two looks whether the mesh is there.
	lookPause = time.Second
	// silence is how long a connection may be lost before another is made: the mesh may
	// have started again at another address.
	silence = 5 * time.Second
)

// source is where the pages get the mesh from: a creds file, or the folder of the mesh,
// whose owner has credentials made and decides as who says, or as its only approver.
type source struct{ who client.Flags }

// connected are connections to one mesh.
type connected struct {
	auditor  *client.Client
	operator *client.Client // nil with a creds file
	approver *client.Client // nil with a creds file, and if it is not known who decides
}

func (c *connected) close() {
	c.auditor.Close()
	for _, more := range []*client.Client{c.operator, c.approver} {
		if more != nil {
			more.Close()
		}
	}
}

func (s *source) connect(ctx context.Context) (*connected, error) {
	who := s.who
	if who.Creds == "" {
		who.As = anyAuditor(who.Where)
	}
	auditor, err := who.Connect(ctx, bcp.RoleAuditor)
	if err != nil || s.who.Creds != "" {
		return &connected{auditor: auditor}, err
	}
	c := &connected{auditor: auditor}
	owner := s.who
	if c.operator, err = owner.Connect(ctx, bcp.RoleOperator); err == nil {
		if owner.As == "" && auditor.Definition != nil && len(auditor.Definition.Approvers) == 1 {
			owner.As = string(auditor.Definition.Approvers[0])
		}
		if owner.As != "" { // it is known who decides about what is held
			c.approver, err = owner.Connect(ctx, bcp.RoleApprover)
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// anyAuditor is the first auditor of a folder's mesh: all of them see the same.
func anyAuditor(where meshdir.StateFlags) string {
	_, def, err := where.Load()
	if err != nil || len(def.Auditors) == 0 {
		return ""
	}
	return string(def.Auditors[0])
}

func (c *connected) mesh() web.Mesh {
	m := web.Mesh{Auditor: c.auditor.Auditor(), Budgets: c.auditor.Operator(), Connected: c.auditor.NATS().IsConnected, Definition: func() *bcp.Mesh { return c.auditor.Definition }}
	if c.approver != nil {
		m.Owner = &web.Person{Name: c.approver.Name, Approver: agents.NewApprover(c.approver.Connection)}
	}
	if c.operator != nil {
		m.Operator = c.operator.Operator()
	}
	return m
}

// attendUntil has the server attend to connections until ctx ends: other ones before the
// credentials of these expire, and if the mesh is lost.
func (s *source) attendUntil(ctx context.Context, server *web.Server, c *connected) {
	for c != nil {
		attending, stop := context.WithCancel(ctx)
		shown := c.mesh()
		if folder, err := s.who.Where.Folder(); err == nil && s.who.Creds == "" {
			shown.Proof = func() web.Proof { return proof(folder.State) }
		}
		var attended sync.WaitGroup
		attended.Go(func() { server.Attend(attending, shown) })
		next := s.reconnect(ctx, c)
		stop()
		attended.Wait()
		c.close()
		c = next
	}
}

// proof is the newest checkpoint of a state folder. One that cannot be read is none.
func proof(state string) (p web.Proof) {
	store, err := accounts.Open(state)
	tree := mesh.Tree(state)
	if newest, wrong := tree.Newest(); wrong == nil && err == nil {
		p.Checkpoint = string(newest)
		p.Signed, _ = tree.SignedAt()
		p.Key, _ = store.CheckpointPublic()
	}
	return p
}

// reconnect returns the connections that follow, nil when ctx has ended.
func (s *source) reconnect(ctx context.Context, c *connected) *connected {
	due := time.Now().Add(renewal)
	seen := time.Now()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		now := time.Now()
		if c.auditor.NATS().IsConnected() {
			seen = now
		}
		if s.who.Creds != "" || now.Before(due) && now.Sub(seen) < silence {
			continue // the creds file is read at every connect
		}
		next, err := s.connect(ctx)
		if err == nil {
			return next
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
	}
}
