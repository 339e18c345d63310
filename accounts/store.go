package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of the package. Their texts, and those that wrap them, contain names
// and numbers from the operator's own folder and never a key.
var (
	// ErrUnsafe says that the store could be read or replaced by others.
	ErrUnsafe = errors.New("the key store is not safe")
	// ErrBusy says that another process kept the store's lock too long.
	ErrBusy = errors.New("another process is using the key store")
	// ErrUnknown says that the mesh has no such agent in such a role.
	ErrUnknown = errors.New("no such agent in this mesh")
	// ErrTooManyScopes says that an account's JWT would become too large for
	// every connection of the account.
	ErrTooManyScopes = errors.New("too many permissions or revocations in one account")
	// ErrOperatorAway says that the operator's key is needed but not in the store.
	ErrOperatorAway = errors.New("the operator's key is away")
	// ErrFull says that the store has no room for more records of issued credentials.
	ErrFull = errors.New("the record of what was issued is full")

	errNoKey = errors.New("no such key")
)

// KeyFolder is the folder of a Store, in a state folder and in a backup.
const KeyFolder = "keys"

const (
	keySuffix = ".nk"
	lockFile  = "lock"
	// operatorFile is the operator's JWT: the root of trust, without its key.
	operatorFile = "operator.jwt"
	stateFile    = "state.json"
	lockTimeout  = 10 * time.Second
	lockRetry    = 5 * time.Millisecond
)

var keyFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\.nk$`)

// IsStoreFile reports whether a file with this name is one that a [Store] keeps in its folder:
// others are drafts of writers that were killed, or somebody else's.
func IsStoreFile(name string) bool {
	return keyFile.MatchString(name) || slices.Contains([]string{lockFile, operatorFile, stateFile, sealFile, CheckpointKeyFile, AttestKeyFile}, name)
}

// Names of key files, without their suffix.
const (
	operatorKey        = "operator"
	operatorSigningKey = "operator-signing"
	gatewayKey         = "gateway"
	monitorKey         = "monitor"
	gatewayScopeKey    = "scope-gateway"
	monitorScopeKey    = "scope-monitor"
)

func accountKey(account string) string { return "account-" + account }

// scopeKey is the file of the signing key of an agent in a role; restricted users
// have keys of their own. No name of an agent has a dot.
func scopeKey(who party, r Restriction) string {
	name := "scope-" + userName(who)
	if r.none() {
		return name
	}
	return name + "." + r.digest()
}

// Store is the folder with the keys of one mesh, and the record of what was
// issued with them. It may be used concurrently, also by several processes:
// every change holds the folder's lock.
type Store struct {
	redacted
	folder string
	seal   *seal
}

// Create makes a store with new keys in the folder keys of the state folder,
// which it creates if necessary. It refuses to replace a store. It appears
// complete or not at all.
func Create(stateFolder string) (*Store, error) {
	folder := filepath.Join(stateFolder, KeyFolder)
	_, err := os.Lstat(folder)
	if !errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(fs.ErrExist, err)
	} else {
		err = makeFolder(folder, func(draft string) error { return (&Store{folder: draft, seal: &seal{}}).fill() })
	}
	if err != nil {
		return nil, fmt.Errorf("create a key store: %w", err)
	}
	return Open(stateFolder)
}

func (s *Store) fill() error {
	of := map[string]func() (nkeys.KeyPair, error){
		operatorKey: nkeys.CreateOperator, operatorSigningKey: nkeys.CreateOperator, gatewayKey: nkeys.CreateUser, monitorKey: nkeys.CreateUser,
		gatewayScopeKey: nkeys.CreateAccount, monitorScopeKey: nkeys.CreateAccount, joinScopeKey: nkeys.CreateAccount,
	}
	for _, account := range append(accountNames[:len(accountNames):len(accountNames)], Joiners) {
		of[accountKey(account)] = nkeys.CreateAccount
	}
	for name, create := range of {
		if _, err := s.makeKey(name, create, createFile); err != nil {
			return err
		}
	}
	return s.save(state{})
}

// Open opens the store in a state folder, and checks that its keys exist and
// that nobody else may read it. The error wraps [fs.ErrNotExist] if there is no
// store. The operator's key (operator.nk) may be missing: it signs the root of
// trust once, and is not needed afterwards.
func Open(stateFolder string, options ...OpenOption) (*Store, error) {
	s := newStore(stateFolder, options)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("open the key store: %w", err)
	}
	return s, nil
}

func (s *Store) check() error {
	if err := checkFolder(s.folder); err != nil {
		return err
	}
	st, err := s.load()
	if err != nil {
		return err
	}
	if err := s.checkKey(operatorKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := []string{operatorSigningKey, gatewayKey, monitorKey, gatewayScopeKey, monitorScopeKey}
	for _, account := range st.accounts() {
		names = append(names, accountKey(account))
	}
	for _, name := range names {
		if err := s.checkKey(name); err != nil {
			return err
		}
	}
	return nil
}

func newStore(stateFolder string, options []OpenOption) *Store {
	s := &Store{folder: filepath.Join(stateFolder, KeyFolder), seal: &seal{}}
	for _, option := range options {
		option(s)
	}
	return s
}

// OperatorKey returns the operator's public key, which identifies the mesh.
func (s *Store) OperatorKey() (string, error) {
	signer, err := s.key(operatorKey)
	if !errors.Is(err, fs.ErrNotExist) {
		return signer.PublicKey(), err
	}
	claims, _, err := s.operatorClaims()
	if err != nil {
		return "", err
	}
	return claims.Subject, nil
}

// locked runs f while holding the store's lock.
func (s *Store) locked(f func() error) error {
	if err := checkFolder(s.folder); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock := flock.New(filepath.Join(s.folder, lockFile), flock.SetPermissions(fileMode))
	if ok, err := lock.TryLockContext(ctx, lockRetry); !ok {
		return fmt.Errorf("%w: %v", ErrBusy, err)
	}
	err := f()
	return errors.Join(err, lock.Close())
}

// key reads one private key.
func (s *Store) key(name string) (Signer, error) {
	seed, err := s.readSeed(name)
	if err != nil {
		return Signer{}, err
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return Signer{}, fmt.Errorf("%s%s holds no key: %w", name, keySuffix, err)
	}
	return newSigner(pair)
}

// makeKey makes a key, which write creates or has replace another. With createFile it
// survives a crash once the state is saved.
func (s *Store) makeKey(name string, create func() (nkeys.KeyPair, error), write func(path string, content []byte) error) (Signer, error) {
	signer, seed, err := newKey(create)
	if err == nil {
		err = s.writeSecret(filepath.Join(s.folder, name+keySuffix), seed, write)
	}
	if err != nil {
		return Signer{}, err
	}
	return signer, nil
}

// accountSigner returns the key of an account or a scope, and makes it if it
// does not exist. The caller holds the lock.
func (s *Store) accountSigner(name string) (Signer, error) {
	signer, err := s.key(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.makeKey(name, nkeys.CreateAccount, createFile)
	}
	return signer, err
}

// state is what the store remembers besides its keys.
type state struct {
	// Serial is the iat of the last account JWTs, in Unix seconds: servers
	// ignore a JWT that is not newer.
	Serial int64 `json:"serial"`
	// Scopes are the agents and roles of the last Compile, sorted by agent, then
	// role.
	Scopes []scopeRecord `json:"scopes"`
	// Homes are the accounts of agents' users in each role, also of removed
	// agents: creds name their account.
	Homes []home `json:"homes,omitempty"`
	// Replaced are replaced signing keys, whose users are accepted until a
	// time.
	Replaced []scopeRecord `json:"replaced,omitempty"`
	// Operator and OperatorSigning are the operator's keys in the audit.
	Operator        string `json:"operator_key,omitempty"`
	OperatorSigning string `json:"operator_signing_key,omitempty"`
	// Users were issued, oldest first.
	Users []User `json:"users"`
	// Invitations are those that have not expired.
	Invitations []Invitation `json:"invitations,omitempty"`
	// Changes are those not yet in an audit, oldest first. Changed is the number
	// of the newest change so far.
	Changes []Change `json:"changes,omitempty"`
	Changed uint64   `json:"changed,omitempty"`

	// Remotes are the logins of a cluster's gateways and of the program that
	// pushes claims to it, oldest first. They exist from the first export on.
	Remotes []Remote `json:"remotes,omitempty"`

	// Attestations is nil until something was attested.
	Attestations *attestations `json:"attestations,omitempty"`

	// homes and taken are derived from Homes by homeKnown; filled is settle's count of
	// each account's claims, in bytes.
	homes  map[party]int // places in Homes
	taken  map[string]int
	filled map[string]int
}

// scopeRecord is one signing key of an agent in a role, or, without either, of
// invitations.
type scopeRecord struct {
	Agent bcp.AgentName `json:"agent,omitempty"`
	Role  bcp.Role      `json:"role,omitzero"`
	Key   string        `json:"key"`
	Restriction
	Until time.Time `json:"until,omitzero"` // of one that was replaced
}

func (r scopeRecord) party() party { return party{r.Agent, r.Role} }

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
	if len(content) > maxFile { // it could not be read back
		return ErrFull
	}
	return replaceFile(filepath.Join(s.folder, stateFile), content)
}
