package accounts

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// AgentsPerAccount is how many agents an account may have before another of
	// its kind is added. At about 700 bytes each this is far below 1 MiB, at
	// which a server refuses the account's JWT, and with it every connection of
	// the account.
	AgentsPerAccount = 256
	// MaxAccountJWT bounds one account's JWT in bytes: agents with very many
	// subscriptions reach it, and very many revocations do.
	MaxAccountJWT = 900 << 10
	// accountRoom is how much of it new agents may fill: the rest is for channels
	// that its agents get later, for revocations and for replaced keys.
	accountRoom = 400 << 10
)

const tokenVersion = 2

// clockSlack is how long a revocation outlives its user's expiry: a server lets
// in for the whole of the last second, and a clock may be set back.
const clockSlack = 24 * time.Hour

// forEver revokes a user for any time of issue: its key is never used again.
const forEver = 1<<53 - 1

// Compile makes the claims of a mesh from its scopes: a new scope gets a
// signing key, an existing one keeps its key, so that creds survive edits of
// the definitions. The accounts' time of issue is now or, if that is not later
// than the one before, one second after that: servers ignore claims that are
// not newer.
//
// It applies what is due by now: revocations take effect, and replaced signing
// keys are removed.
//
// It refuses a scope that package subjects could not have made, and an account that would
// become too large ([ErrTooManyScopes]); then everything compiled before is unchanged.
func Compile(store *Store, scopes []subjects.Scope, now time.Time) (Bundle, error) {
	return compile(store, scopes, now, false)
}

// CompileCluster is [Compile] for servers outside this process. They accept no gateway
// inside them, only logins from [Store.Gateway], and the program that pushes claims.
// The bundle has no logins.
func CompileCluster(store *Store, scopes []subjects.Scope, now time.Time) (Bundle, error) {
	return compile(store, scopes, now, true)
}

func compile(store *Store, scopes []subjects.Scope, now time.Time, cluster bool) (Bundle, error) {
	var b Bundle
	err := store.locked(func() error {
		if err := checkScopes(scopes); err != nil {
			return err
		}
		st, err := store.load()
		if err != nil {
			return err
		}
		st.Serial = max(now.Unix(), st.Serial+1)
		st.forget(now)
		var keys []scopeRecord
		if st.Scopes, keys, err = store.signingKeys(&st, scopes, now); err != nil {
			return err
		}
		operator, err := store.key(operatorSigningKey)
		if err != nil {
			return err
		}
		if b, err = store.bundle(st, operator, keys, scopes, now, cluster); err != nil {
			return err
		}
		if err := store.noteOperator(&st, now, operator.PublicKey()); err != nil {
			return err
		}
		// Nobody has seen what a crash before this line leaves.
		return store.save(st)
	})
	if err != nil {
		return Bundle{}, fmt.Errorf("compile accounts: %w", err)
	}
	return b, nil
}

// checkScopes refuses everything that could widen a permission in a claim:
// wildcards inside names, templates, roles without an account.
func checkScopes(scopes []subjects.Scope) error {
	seen := map[party]bool{}
	for _, s := range scopes {
		if _, err := bcp.ParseAgentName(string(s.Agent)); err != nil || roleAccounts[s.Role] == "" {
			return errors.New("a scope has no valid agent or role")
		}
		who := party{s.Agent, s.Role}
		if seen[who] {
			return fmt.Errorf("two scopes of %s as %s", s.Agent, s.Role)
		}
		seen[who] = true
		if len(s.SubAllow) == 0 || s.MaxSubscriptions <= 0 || s.MaxPayload < 0 || s.Respond != (s.RespondFor > 0) {
			return fmt.Errorf("the scope of %s as %s is incomplete", s.Agent, s.Role)
		}
		for _, list := range [][]string{s.PubAllow, s.SubAllow} {
			for _, subject := range list {
				if !subjects.Valid(subject) || subject == ">" || strings.ContainsAny(subject, "{}") || strings.HasPrefix(subject, "*") {
					return fmt.Errorf("the scope of %s as %s has a subject that grants too much", s.Agent, s.Role)
				}
			}
		}
	}
	return nil
}

// signingKeys returns the key of each agent in each role, and all accepted
// keys: those, those of users with a restriction, and recently replaced ones.
// The caller holds the lock.
func (s *Store) signingKeys(st *state, scopes []subjects.Scope, now time.Time) (agents, all []scopeRecord, err error) {
	restrictions := map[party][]Restriction{}
	for _, u := range st.Users {
		if of := restrictions[u.party()]; u.Valid(now) && !u.Restriction.none() && !slices.ContainsFunc(of, u.Restriction.equal) {
			restrictions[u.party()] = append(of, u.Restriction)
		}
	}
	st.assignHomes(scopes)
	for _, scope := range scopes {
		who := party{scope.Agent, scope.Role}
		for _, r := range append([]Restriction{{}}, restrictions[who]...) {
			signer, err := s.accountSigner(scopeKey(who, r))
			if err != nil {
				return nil, nil, err
			}
			all = append(all, scopeRecord{Agent: scope.Agent, Role: scope.Role, Key: signer.PublicKey(), Restriction: r})
			if r.none() && scope.Role != bcp.RoleDispatcher { // nobody has its creds
				agents = append(agents, all[len(all)-1])
			}
		}
	}
	return agents, append(all, st.Replaced...), nil
}

// bundle signs everything. The caller holds the lock.
func (s *Store) bundle(st state, operator Signer, keys []scopeRecord, scopes []subjects.Scope, now time.Time, cluster bool) (b Bundle, err error) {
	names, public := append(st.accounts(), Joiners), map[string]string{}
	for _, name := range names {
		key, err := s.accountSigner(accountKey(name))
		if err != nil {
			return Bundle{}, err
		}
		public[name] = key.PublicKey()
	}
	claims := draft(public)
	joiner, err := s.addScope(joinScopeKey, claims[Joiners], joinScope)
	if err != nil {
		return Bundle{}, err
	}
	b.joiners = []string{joiner.PublicKey()}
	for _, record := range st.Replaced {
		if record.Agent == "" {
			claims[Joiners].SigningKeys.AddScopedSigner(joinScope(record.Key))
			b.joiners = append(b.joiners, record.Key)
		}
	}
	b.scopes = map[string]scopeRecord{}
	granted := map[party]subjects.Scope{}
	for _, scope := range scopes {
		granted[party{scope.Agent, scope.Role}] = scope
	}
	for _, record := range keys {
		scope, ok := granted[record.party()]
		if !ok { // a replaced key of a removed agent
			continue
		}
		home := st.homeFor(record.party(), 0)
		if record.Role == bcp.RoleDispatcher && !cluster {
			if err := s.dispatcherLogin(&b, record, home); err != nil {
				return Bundle{}, err
			}
		} else {
			b.scopes[record.Key] = record
		}
		claims[home].SigningKeys.AddScopedSigner(agentScope(scope, record, cluster))
	}
	for _, u := range st.Users {
		_, signed := b.scopes[u.Issuer]
		// Expired users, and users that no key of the account has signed, are
		// refused without a revocation.
		if !u.Revoked.IsZero() && !hasEnded(u.Expires, now.Add(-clockSlack)) && (signed || u.Issuer == "") {
			claims[st.homeFor(u.party(), 0)].Revocations[u.PublicKey] = forEver
		}
	}
	if cluster {
		err = s.letInFromOutside(st, claims)
	} else {
		for _, account := range claims { // the entrance of the mesh's own server lets in, inside its process, whom [Bundle.Admits] does
			for _, scope := range account.SigningKeys {
				scope.(*jwt.UserScope).Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
			}
		}
		err = errors.Join(
			s.login(&b.Gateway, outside{Core, gatewayKey, gatewayScopeKey, embeddedGatewayScope}, claims),
			s.login(&b.Monitor, outside{System, monitorKey, monitorScopeKey, embeddedMonitorScope}, claims))
	}
	if err != nil {
		return Bundle{}, err
	}
	for _, name := range names {
		account, err := encodeAccount(claims[name], operator, st.Serial)
		if err != nil {
			return Bundle{}, fmt.Errorf("account %s: %w", name, err)
		}
		b.Accounts = append(b.Accounts, account)
	}
	sort.Slice(b.Accounts, func(i, j int) bool { return b.Accounts[i].Name < b.Accounts[j].Name })
	b.Operator, err = s.operatorJWT(claims[System].Subject, operator.PublicKey())
	return b, err
}

// login adds a scope to the claims of its account and makes one user under it.
func (s *Store) login(l *Login, o outside, claims map[string]*jwt.AccountClaims) error {
	signer, err := s.key(o.name)
	if err != nil {
		return err
	}
	if _, err := s.addScope(o.scopeKey, claims[o.account], o.template); err != nil {
		return err
	}
	token, err := s.tokenUnder(&User{PublicKey: signer.PublicKey()}, o.name, o.account, o.scopeKey)
	*l = Login{JWT: token, Signer: signer}
	return err
}

// dispatcherLogin makes a user of a dispatcher, only for this process: its key
// exists nowhere else.
func (s *Store) dispatcherLogin(b *Bundle, record scopeRecord, account string) error {
	user, _, err := newKey(nkeys.CreateUser)
	if err != nil {
		return err
	}
	u := User{PublicKey: user.PublicKey()}
	token, err := s.tokenUnder(&u, userName(record.party()), account, scopeKey(record.party(), Restriction{}))
	if err != nil || u.Issuer != record.Key { // a replaced key
		return err
	}
	if b.dispatchers == nil {
		b.dispatchers = map[bcp.AgentName]Login{}
	}
	b.dispatchers[record.Agent] = Login{JWT: token, Signer: user}
	return nil
}

// addScope adds an internal scope to an account, with a signing key that is
// made if necessary. The caller holds the lock.
func (s *Store) addScope(name string, account *jwt.AccountClaims, template func(key string) *jwt.UserScope) (Signer, error) {
	issuer, err := s.accountSigner(name)
	if err == nil {
		account.SigningKeys.AddScopedSigner(template(issuer.PublicKey()))
	}
	return issuer, err
}

// operatorJWT returns the root of trust: the stored one, or, if it differs, a
// new one, which needs the operator's key.
func (s *Store) operatorJWT(system, signingKey string) (string, error) {
	identity, keyErr := s.key(operatorKey)
	away := errors.Is(keyErr, fs.ErrNotExist)
	kept, token, err := s.operatorClaims()
	if err == nil && (away || kept.Subject == identity.PublicKey()) && kept.SystemAccount == system && slices.Equal(kept.SigningKeys, jwt.StringList{signingKey}) && kept.StrictSigningKeyUsage {
		return token, nil
	}
	if err != nil && !errors.Is(err, ErrOperatorAway) {
		return "", err
	}
	if away {
		return "", fmt.Errorf("%w: put %s%s back into the folder %s", ErrOperatorAway, operatorKey, keySuffix, KeyFolder)
	}
	if keyErr != nil {
		return "", keyErr
	}
	claims := jwt.NewOperatorClaims(identity.PublicKey())
	claims.Name = "bcpmesh"
	claims.SystemAccount = system
	claims.SigningKeys.Add(signingKey)
	// Accounts' identity keys must not sign users, nor the operator's accounts.
	claims.StrictSigningKeyUsage = true
	pair, err := identity.pair()
	if err != nil {
		return "", err
	}
	if token, err = claims.EncodeWithSigner(pair, identity.signFor); err != nil {
		return "", err
	}
	return token, replaceFile(filepath.Join(s.folder, operatorFile), []byte(token))
}

// operatorClaims reads the stored root of trust. If it is missing, the error is
// [ErrOperatorAway].
func (s *Store) operatorClaims() (*jwt.OperatorClaims, string, error) {
	content, err := readFile(filepath.Join(s.folder, operatorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrOperatorAway
	}
	if err != nil {
		return nil, "", err
	}
	claims, err := jwt.DecodeOperatorClaims(string(content)) // checks the signature by the issuer
	if err == nil && claims.Issuer != claims.Subject {
		err = errors.New("another key has signed it")
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", operatorFile, err)
	}
	return claims, string(content), nil
}

// encodeAccount signs the claims with a given time of issue, which the
// library's own encoder cannot do, and reads them back with the library.
func encodeAccount(claims *jwt.AccountClaims, operator Signer, serial int64) (Account, error) {
	sort.Stable(claims.Exports)
	sort.Stable(claims.Imports)
	claims.Type, claims.Version = jwt.AccountClaim, tokenVersion
	claims.Issuer = operator.PublicKey()
	account, err := accountOfClaims(*claims)
	if err != nil {
		return Account{}, err
	}

	claims.IssuedAt = serial
	claims.ID = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(account.Digest[:])
	header, err := json.Marshal(jwt.Header{Type: jwt.TokenTypeJwt, Algorithm: jwt.AlgorithmNkey})
	if err != nil {
		return Account{}, err
	}
	content, err := json.Marshal(claims)
	if err != nil {
		return Account{}, err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(content)
	signature, err := operator.Sign([]byte(text))
	if err != nil {
		return Account{}, err
	}
	account.JWT = text + "." + base64.RawURLEncoding.EncodeToString(signature)
	if len(account.JWT) > MaxAccountJWT {
		return Account{}, fmt.Errorf("%w: its claims take %d bytes, at most %d", ErrTooManyScopes, len(account.JWT), MaxAccountJWT)
	}
	return account, checkToken(account.JWT)
}

// accountOfClaims describes an account, but for its JWT.
func accountOfClaims(claims jwt.AccountClaims) (Account, error) {
	claims.IssuedAt, claims.ID = 0, ""
	content, err := json.Marshal(&claims)
	if err != nil {
		return Account{}, err
	}
	a := Account{Name: claims.Name, PublicKey: claims.Subject, Digest: sha256.Sum256(content)}
	claims.Imports = nil
	content, err = json.Marshal(&claims)
	a.Unimported = sha256.Sum256(content)
	return a, err
}

func checkToken(token string) error {
	decoded, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return err
	}
	results := jwt.CreateValidationResults()
	decoded.Validate(results)
	return errors.Join(results.Errors()...)
}
