package accounts

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxEnforced is how many accounts' JWTs are read from a cluster, which may serve
// others too.
const maxEnforced = 100_000

// ErrNotOurs says that claims are not those of one mesh.
var ErrNotOurs = errors.New("not the claims of this mesh")

// Enforced reads the claims that the servers of a cluster enforce: operator is the
// mesh's own operator JWT, tokens are the JWTs of all accounts of the cluster, each
// account once. The bundle knows the scope of each issuer key, and has no logins.
// To check what its claims grant, use [Bundle.Differences].
//
// Accounts with other names, or that another operator has signed, belong to others,
// such as a second mesh of the cluster. It refuses, with [ErrNotOurs], accounts of ours
// that are missing or duplicate, and everything that [CompileCluster] does not write:
// users without a scope,
// scopes without an owner or in the wrong account, duplicate keys, and everything
// unknown to this version of the program.
func Enforced(operator string, tokens []string) (Bundle, error) {
	e := enforced{bundle: Bundle{Operator: operator, scopes: map[string]scopeRecord{}}, keys: map[string]string{}, homes: map[party]string{}, issuers: map[string]bool{}}
	if err := e.read(operator, tokens); err != nil {
		return Bundle{}, fmt.Errorf("%w: %w", ErrNotOurs, err)
	}
	return e.bundle, nil
}

// enforced is the result so far.
type enforced struct {
	bundle  Bundle
	root    *jwt.OperatorClaims
	keys    map[string]string // public keys of accounts of ours, by name
	homes   map[party]string
	issuers map[string]bool
	others  []*jwt.AccountClaims
}

func (e *enforced) read(operator string, tokens []string) error {
	var err error
	if e.root, err = jwt.DecodeOperatorClaims(operator); err != nil || e.root.Issuer != e.root.Subject || !e.root.StrictSigningKeyUsage {
		return errors.New("the operator's JWT is not valid")
	}
	if len(tokens) > maxEnforced {
		return fmt.Errorf("there are more than %d accounts", maxEnforced)
	}
	seen := map[string]bool{}
	for _, token := range tokens {
		claims, err := decodeAccount(token)
		if err != nil {
			return errors.New("there is an account whose JWT is not valid")
		}
		if seen[claims.Subject] {
			return fmt.Errorf("account %s is there twice", claims.Subject)
		}
		seen[claims.Subject] = true
		if _, ours := kindOf(claims.Name); !ours || !e.root.DidSign(claims) {
			e.others = append(e.others, claims)
			continue
		}
		if err := e.add(claims, token); err != nil {
			return fmt.Errorf("account %s: %w", claims.Name, err)
		}
	}
	for _, name := range append(slices.Clone(accountNames), Joiners) {
		if e.keys[name] == "" {
			return fmt.Errorf("there is no account %s", name)
		}
	}
	if e.keys[System] != e.root.SystemAccount {
		return fmt.Errorf("%s is not the operator's system account", System)
	}
	slices.SortFunc(e.bundle.Accounts, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	e.findIntruders()
	return nil
}

// decodeAccount reads an account's JWT and checks the signature by its issuer. The library passes a null among imports and
// exports, at which nobody who reads them looks.
func decodeAccount(token string) (*jwt.AccountClaims, error) {
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return nil, err
	}
	if slices.Contains(claims.Exports, nil) || slices.Contains(claims.Imports, nil) {
		return nil, errors.New("an import or export is null")
	}
	return claims, nil
}

// add takes an account with a name of ours, which our operator has signed.
func (e *enforced) add(claims *jwt.AccountClaims, token string) error {
	if e.keys[claims.Name] != "" {
		return errors.New("there are two of this name")
	}
	if !nkeys.IsValidPublicAccountKey(claims.Subject) {
		return errors.New("its key is not an account's")
	}
	e.keys[claims.Name] = claims.Subject
	if err := checkKnown(claims, token); err != nil {
		return err
	}
	account, err := accountOfClaims(*claims)
	if err != nil {
		return err
	}
	account.JWT = token
	e.bundle.Accounts = append(e.bundle.Accounts, account)
	for _, key := range slices.Sorted(maps.Keys(claims.SigningKeys)) {
		scope, ok := claims.SigningKeys[key].(*jwt.UserScope)
		if !ok || scope == nil || scope.Key != key || !nkeys.IsValidPublicAccountKey(key) {
			return errors.New("it has a signing key without a scope")
		}
		if e.issuers[key] {
			return errors.New("a signing key is listed twice")
		}
		e.issuers[key] = true
		if _, own := ownScope(claims.Name, scope.Role); own {
			continue
		}
		agent, role, ok := subjects.ParseUserName(scope.Role)
		if kind, _ := kindOf(claims.Name); !ok || roleAccounts[role] != kind {
			return errors.New("it has a scope that belongs to nobody there")
		}
		who := party{agent, role}
		if home := e.homes[who]; home != "" && home != claims.Name {
			return fmt.Errorf("%s is in %s as well", scope.Role, home)
		}
		e.homes[who] = claims.Name
		e.bundle.scopes[key] = scopeRecord{Agent: agent, Role: role, Key: key, Restriction: restrictionIn(scope.Template)}
	}
	return nil
}

// ownScopes returns the scopes in the claims of a cluster's account that do not belong
// to an agent.
func ownScopes(account string) []outside {
	switch kind, _ := kindOf(account); kind {
	case Core:
		return []outside{outsideGateway}
	case System:
		return []outside{outsideMonitor, outsidePush}
	case Joiners:
		return []outside{{account: Joiners, name: subjects.Joiner, template: joinScope}}
	}
	return nil
}

func ownScope(account, name string) (outside, bool) {
	own := ownScopes(account)
	i := slices.IndexFunc(own, func(o outside) bool { return o.name == name })
	if i < 0 {
		return outside{}, false
	}
	return own[i], true
}

// hasScopeName reports whether a scope has its name.
func (o outside) hasScopeName(s jwt.Scope) bool {
	scope, ok := s.(*jwt.UserScope)
	return ok && scope != nil && scope.Role == o.name
}

// restrictionIn reads what [Restriction.write] has written. For other input it
// returns something that would be written differently.
func restrictionIn(t jwt.UserPermissionLimits) Restriction {
	var r Restriction
	for _, text := range t.Src {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return Restriction{}
		}
		r.Sources = append(r.Sources, p)
	}
	r, err := r.Checked()
	if err != nil {
		return Restriction{}
	}
	return r
}

// findIntruders notes accounts of others that reach into ours: whoever signs an
// account of the cluster can make it import what CORE exports.
func (e *enforced) findIntruders() {
	ours := map[string]string{}
	for name, key := range e.keys {
		ours[key] = name
	}
	for _, claims := range e.others {
		for _, i := range claims.Imports {
			if name, ok := ours[i.Account]; ok {
				e.bundle.intruders = append(e.bundle.intruders, fmt.Sprintf("account %s imports %s from %s, and is none of this mesh", claims.Subject, i.Subject, name))
			}
		}
	}
	slices.Sort(e.bundle.intruders)
}

// checkKnown refuses a JWT with more than its decoded claims: servers may know a
// field that this program does not.
func checkKnown(claims *jwt.AccountClaims, token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("its JWT is not valid")
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("its JWT is not valid")
	}
	decoded, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	var says, known any
	if err := errors.Join(json.Unmarshal(content, &says), json.Unmarshal(decoded, &known)); err != nil {
		return errors.New("its JWT is not valid")
	}
	if !isSubset(says, known) {
		return errors.New("its JWT says something that this version of bcpmesh does not know")
	}
	return nil
}

// isSubset reports whether one JSON value has nothing that the other does not have.
func isSubset(says, known any) bool {
	switch says := says.(type) {
	case map[string]any:
		known, ok := known.(map[string]any)
		for key, value := range says {
			if other, there := known[key]; !ok || !there || !isSubset(value, other) {
				return false
			}
		}
		return ok
	case []any:
		known, ok := known.([]any)
		return ok && slices.EqualFunc(says, known, isSubset)
	}
	return says == known
}
