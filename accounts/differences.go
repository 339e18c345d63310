package accounts

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// Differences returns what the claims of a bundle grant more, or less, than
// [CompileCluster] would write for scopes: sorted, one a line, and none if they
// match. It covers scopes, imports and exports, limits, and accounts of others that
// reach into these. It ignores revoked users and the time of issue. An agent may
// have several keys, with or without restrictions, but each must grant exactly the
// agent's scope.
func (b Bundle) Differences(scopes []subjects.Scope) []string {
	all, err := b.claims()
	if err != nil || len(all) == 0 {
		return []string{"the claims cannot be read"}
	}
	keys, granted := map[string]string{}, map[party]subjects.Scope{}
	for name, claims := range all {
		keys[name] = claims.Subject
	}
	for _, s := range scopes {
		granted[party{s.Agent, s.Role}] = s
	}
	if keys[Core] == "" || keys[System] == "" || keys[Joiners] == "" {
		return []string{"the claims are of no mesh"}
	}
	lines := slices.Clone(b.intruders)
	wanted := draft(keys)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, differ(name, accountLines(all[name]), accountLines(wanted[name]))...)
		for key, scope := range all[name].SigningKeys {
			had, ok := scope.(*jwt.UserScope)
			if !ok || had == nil {
				lines = append(lines, name+" has a signing key without a scope")
				continue
			}
			who, want := b.wantedScope(name, had, key, granted)
			lines = append(lines, differ(who, templateLines(had.Template), want)...)
		}
	}
	known := map[party]bool{}
	for _, record := range b.scopes {
		known[record.party()] = known[record.party()] || record.Restriction.none()
	}
	for who := range granted {
		if !known[who] {
			lines = append(lines, title(who)+" is not in the claims")
		}
	}
	for name, claims := range all {
		for _, own := range ownScopes(name) {
			if !slices.ContainsFunc(slices.Collect(maps.Values(claims.SigningKeys)), own.hasScopeName) {
				lines = append(lines, name+": "+own.name+" is not in the claims")
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// wantedScope returns what the scope of a key should say, and its owner. Without an
// owner it is empty.
func (b Bundle) wantedScope(account string, had *jwt.UserScope, key string, granted map[party]subjects.Scope) (string, []string) {
	if own, ok := ownScope(account, had.Role); ok {
		return account + ": " + own.name, templateLines(own.template(key).Template)
	}
	record, ok := b.scopes[key]
	if !ok || userName(record.party()) != had.Role {
		return account + ": a scope of nobody", nil
	}
	scope, ok := granted[record.party()]
	if !ok {
		return title(record.party()), nil
	}
	return title(record.party()), templateLines(agentScope(scope, record, true).Template)
}

func title(who party) string { return string(who.agent) + " (" + who.role.String() + ")" }

// differ lists the statements about somebody that are in only one of two lists.
func differ(who string, has, wants []string) []string {
	var lines []string
	for _, line := range has {
		if !slices.Contains(wants, line) {
			lines = append(lines, who+":"+line+", and the definitions do not say so")
		}
	}
	for _, line := range wants {
		if !slices.Contains(has, line) {
			lines = append(lines, who+" should:"+line)
		}
	}
	return lines
}

// claims returns the decoded JWTs of the accounts, by name.
func (b Bundle) claims() (map[string]*jwt.AccountClaims, error) {
	all := map[string]*jwt.AccountClaims{}
	for _, a := range b.Accounts {
		claims, err := decodeAccount(a.JWT)
		if err != nil {
			return nil, err
		}
		all[a.Name] = claims
	}
	return all, nil
}

// templateLines states everything in a scope's template.
func templateLines(t jwt.UserPermissionLimits) []string { return statements("", encoded(&t)) }

// accountLines states everything in an account except its signing keys, revocations,
// and issuer and time of issue.
func accountLines(c *jwt.AccountClaims) []string {
	rest := *c
	rest.SigningKeys, rest.Revocations = nil, nil
	rest.ID, rest.IssuedAt, rest.Issuer = "", 0, ""
	rest.Type, rest.Version = "", 0
	return append(statements("", encoded(&rest.ClaimsData)), statements("", encoded(&rest.Account))...)
}

// statements states each part of a JSON value: its path and its text.
func statements(path string, value json.RawMessage) (lines []string) {
	var list []json.RawMessage
	var members map[string]json.RawMessage
	switch {
	case json.Unmarshal(value, &members) == nil && members != nil:
		for _, name := range slices.Sorted(maps.Keys(members)) {
			lines = append(lines, statements(path+" "+name, members[name])...)
		}
	case json.Unmarshal(value, &list) == nil && list != nil:
		for _, element := range list {
			lines = append(lines, path+" "+string(element))
		}
	default:
		lines = append(lines, path+" "+string(value))
	}
	return lines
}

// encoded returns a value of the JWT library as JSON.
func encoded(value any) json.RawMessage {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return nil // which is as nothing else
	}
	return bytes.TrimSpace(text.Bytes())
}
