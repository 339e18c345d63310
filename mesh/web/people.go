package web

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	passkeySuffix, credsSuffix = ".passkey", ".creds"
	// maxPeople bounds the passkeys of a folder that are read.
	maxPeople = 1000
	// maxPersonFile bounds each of a person's files, in bytes.
	maxPersonFile = 64 << 10
)

// People are those who may log in with a passkey. Each has two files in a folder: a
// passkey, and creds that are bound to it. Its methods may be called concurrently; the
// fields are set before and not changed.
type People struct {
	// Folder has the files. It must be its owner's alone.
	Folder string
	// At says where the mesh serves, and how it is known there. It is asked at each
	// connection, concurrently: name and logger of the options are set by People.
	At func() (url string, o agents.Options, err error)
	// Logger is told who enrols, and who cannot. It is required.
	Logger hclog.Logger

	// crowded says once that there are too many of them.
	crowded sync.Once
}

// find returns the first passkey of the folder that is meant, and the name of its file
// without the suffix, if there is one. Beyond maxPeople the last by name are left out.
func (p *People) find(meant func(accounts.Passkey) bool) (stem string, found accounts.Passkey) {
	names, _ := filepath.Glob(filepath.Join(p.Folder, "*"+passkeySuffix)) // a bad pattern finds none
	if len(names) > maxPeople {
		p.crowded.Do(func() {
			p.Logger.Warn("there are too many passkeys: the last by name cannot log in; remove those of people who left", "folder", p.Folder, "passkeys", len(names), "read", maxPeople)
		})
		names = names[:maxPeople]
	}
	for _, name := range names {
		content, err := disk.ReadFile(name, maxPersonFile)
		if err != nil {
			continue
		}
		if of, err := accounts.ParsePasskey(content); err == nil && of.ID != "" && meant(of) {
			return strings.TrimSuffix(name, passkeySuffix), of
		}
	}
	return "", accounts.Passkey{}
}

// passkey returns the passkey with a browser's id for it.
func (p *People) passkey(id string) (accounts.Passkey, bool) {
	stem, found := p.find(func(of accounts.Passkey) bool { return of.ID == id })
	return found, stem != ""
}

// errNotBound says that creds are not those of an approver with the passkey next to them.
var errNotBound = errors.New("the creds stored with the passkey are not an approver's, or are not bound to it")

// connect returns the owner of a passkey, with a connection of their own.
func (p *People) connect(ctx context.Context, passkey accounts.Passkey) (person *Person, err error) {
	defer func() {
		if err != nil {
			p.Logger.Warn("somebody with a passkey cannot log in", "error", err)
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
	content, err := disk.ReadFile(creds, maxPersonFile)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", creds, err)
	}
	who, err := accounts.ParseHolder(content)
	if err != nil {
		return nil, fmt.Errorf("%s holds no credentials of a mesh: %w", creds, err)
	}
	if who.Role != bcp.RoleApprover || who.Passkey != hash {
		return nil, errNotBound
	}
	url, o, err := p.At()
	if err != nil {
		return nil, err
	}
	o.Name, o.Logger = who.Agent, hclog.NewNullLogger()
	c, err := agents.Connect(ctx, url, agents.CredsFile(creds), o)
	if err != nil {
		return nil, err
	}
	return &Person{Name: who.Agent, Approver: agents.NewApprover(c), Passkey: passkey, Close: c.Close,
		Over: func() bool { return !c.NATS().IsConnected() && agents.CredsRefused(c.NATS().LastError()) }}, nil
}

// join exchanges the token of an invitation for creds that are bound to a passkey, and
// stores both. An error of [*agents.RefusedError] or [agents.ErrToken] says that the token
// is not valid.
func (p *People) join(ctx context.Context, token string, passkey accounts.Passkey) (name bcp.AgentName, err error) {
	defer func() {
		if err != nil {
			p.Logger.Warn("somebody with an invitation cannot enrol", "error", err)
		} else {
			p.Logger.Info("somebody enrolled a passkey: compare its words with those of bcpmesh creds", "name", name)
		}
	}()
	hash, err := passkey.Hash()
	if err != nil {
		return "", err
	}
	if names, err := filepath.Glob(filepath.Join(p.Folder, "*"+passkeySuffix)); err != nil || len(names) >= maxPeople {
		return "", errors.Join(fmt.Errorf("%s has %d passkeys: remove those of people who left", p.Folder, len(names)), err)
	}
	url, o, err := p.At()
	if err != nil {
		return "", err
	}
	creds, name, _, err := agents.Join(ctx, url, token, hash, o.NATS...)
	if err != nil {
		return "", err
	}
	file, err := json.Marshal(passkey)
	if err != nil {
		return "", err
	}
	stem := filepath.Join(p.Folder, string(name)+"."+hex.EncodeToString(hash[:4]))
	if err := disk.Replace(stem+credsSuffix, creds, 0o600); err != nil {
		return "", err
	}
	return name, disk.Replace(stem+passkeySuffix, file, 0o600)
}
