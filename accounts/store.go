package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of the package. Their texts, and those that wrap them, hold names and
// numbers of the operator's own folder and never a key.
var (
	// ErrUnsafe says that the store could be read or replaced by others.
	ErrUnsafe = errors.New("the key store is not safe")
	// ErrBusy says that another process kept the store's lock too long.
	ErrBusy = errors.New("another process is using the key store")
	// ErrUnknown says that the mesh has no such agent in such a role.
	ErrUnknown = errors.New("no such agent in this mesh")
	// ErrTooManyScopes says that an account's JWT would become too large for
	// every connection of the account.
	ErrTooManyScopes = errors.New("too many agents in one account")

	errNoKey = errors.New("no such key")
)

// The names of the accounts.
const (
	System      = "SYS"
	Core        = "CORE"
	Readers     = "READERS"
	Controllers = "CONTROLLERS"
	Operators   = "OPERATORS"
)

var accountNames = []string{System, Core, Readers, Controllers, Operators}

// accountOf returns the account of a role, or the empty string.
func accountOf(r bcp.Role) string {
	switch r {
	case bcp.RoleReader:
		return Readers
	case bcp.RoleController:
		return Controllers
	case bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator:
		return Operators
	}
	return ""
}

const (
	keyFolder   = "keys"
	keySuffix   = ".nk"
	lockFile    = "lock"
	stateFile   = "state.json"
	lockTimeout = 10 * time.Second
	lockRetry   = 5 * time.Millisecond
)

// Names of key files, without their suffix.
const (
	operatorKey        = "operator"
	operatorSigningKey = "operator-signing"
	gatewayKey         = "gateway"
	monitorKey         = "monitor"
	gatewayScopeKey    = "scope-gateway"
	monitorScopeKey    = "scope-monitor"
)

func accountKey(account string) string            { return "account-" + account }
func scopeKey(r bcp.Role, a bcp.AgentName) string { return "scope-" + r.String() + "-" + string(a) }

// Store is the folder that holds the keys of one mesh, and the record of what
// was issued with them. It may be used concurrently, also by several
// processes: whatever changes the folder holds its lock.
type Store struct {
	redacted
	folder string
}

// Create makes a store with fresh keys in the folder keys of the state folder,
// which it makes too if it has to. It refuses where there is a store already.
// It appears complete or not at all.
func Create(stateFolder string) (*Store, error) {
	if err := os.MkdirAll(stateFolder, folderMode); err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	folder := filepath.Join(stateFolder, keyFolder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("create a key store: %w", errors.Join(fs.ErrExist, err))
	}
	draft := filepath.Join(stateFolder, ".new-"+randomName())
	defer os.RemoveAll(draft)
	if err := os.Mkdir(draft, folderMode); err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	if err := (&Store{folder: draft}).fill(); err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	if err := os.Rename(draft, folder); err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	if err := syncFolder(stateFolder); err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	return Open(stateFolder)
}

func (s *Store) fill() error {
	make := func(name string, create func() (nkeys.KeyPair, error)) error {
		_, err := s.createKey(name, create)
		return err
	}
	err := errors.Join(
		make(operatorKey, nkeys.CreateOperator),
		make(operatorSigningKey, nkeys.CreateOperator),
		make(gatewayKey, nkeys.CreateUser),
		make(monitorKey, nkeys.CreateUser),
		make(gatewayScopeKey, nkeys.CreateAccount),
		make(monitorScopeKey, nkeys.CreateAccount),
	)
	for _, account := range accountNames {
		err = errors.Join(err, make(accountKey(account), nkeys.CreateAccount))
	}
	if err != nil {
		return err
	}
	return s.save(state{})
}

// Open opens the store in a state folder, checks that nobody else may read it,
// and that its keys are there. The error wraps [fs.ErrNotExist] where there is
// no store.
func Open(stateFolder string) (*Store, error) {
	s := &Store{folder: filepath.Join(stateFolder, keyFolder)}
	if err := checkFolder(s.folder); err != nil {
		return nil, fmt.Errorf("open the key store: %w", err)
	}
	names := []string{operatorKey, operatorSigningKey, gatewayKey, monitorKey, gatewayScopeKey, monitorScopeKey}
	for _, account := range accountNames {
		names = append(names, accountKey(account))
	}
	for _, name := range names {
		if _, err := s.key(name); err != nil {
			return nil, fmt.Errorf("open the key store: %w", err)
		}
	}
	if _, err := s.load(); err != nil {
		return nil, fmt.Errorf("open the key store: %w", err)
	}
	return s, nil
}

// OperatorKey returns the operator's public key, which names the mesh.
func (s *Store) OperatorKey() (string, error) {
	signer, err := s.key(operatorKey)
	return signer.PublicKey(), err
}

// locked runs f with the store's lock held.
func (s *Store) locked(f func() error) error {
	if err := checkFolder(s.folder); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock := flock.New(filepath.Join(s.folder, lockFile), flock.SetPermissions(fileMode))
	if ok, err := lock.TryLockContext(ctx, lockRetry); !ok {
		return errors.Join(ErrBusy, err)
	}
	err := f()
	return errors.Join(err, lock.Close())
}

// key reads one private key.
func (s *Store) key(name string) (Signer, error) {
	seed, err := readFile(filepath.Join(s.folder, name+keySuffix))
	if err != nil {
		return Signer{}, err
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return Signer{}, fmt.Errorf("%s%s holds no key: %w", name, keySuffix, err)
	}
	return newSigner(pair)
}

// createKey makes a key that outlives a crash once the state is saved.
func (s *Store) createKey(name string, create func() (nkeys.KeyPair, error)) (Signer, error) {
	pair, err := create()
	if err != nil {
		return Signer{}, fmt.Errorf("make a key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Signer{}, fmt.Errorf("make a key: %w", err)
	}
	if err := createFile(filepath.Join(s.folder, name+keySuffix), seed); err != nil {
		return Signer{}, err
	}
	return newSigner(pair)
}

// scopeSigner returns the signing key of an agent in a role, and makes it if
// there is none. The caller holds the lock.
func (s *Store) scopeSigner(r bcp.Role, a bcp.AgentName) (Signer, error) {
	signer, err := s.key(scopeKey(r, a))
	if errors.Is(err, fs.ErrNotExist) {
		return s.createKey(scopeKey(r, a), nkeys.CreateAccount)
	}
	return signer, err
}

// state is what the store remembers beside its keys.
type state struct {
	// Serial is the iat of the last account JWTs, in Unix seconds: servers
	// ignore one that is not newer.
	Serial int64 `json:"serial"`
	// Scopes are those of the last Compile, sorted by agent, then role.
	Scopes []scopeRecord `json:"scopes"`
	// Users were issued, oldest first.
	Users []User `json:"users"`
}

type scopeRecord struct {
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"`
	Key   string        `json:"key"`
}

func (s *Store) load() (state, error) {
	content, err := readFile(filepath.Join(s.folder, stateFile))
	if err != nil {
		return state{}, err
	}
	var st state
	if err := json.Unmarshal(content, &st); err != nil {
		return state{}, fmt.Errorf("%s: %w", stateFile, err)
	}
	return st, nil
}

func (s *Store) save(st state) error {
	content, err := json.MarshalIndent(st, "", " ")
	if err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	return replaceFile(filepath.Join(s.folder, stateFile), content)
}
