package accounts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
			lines = append(lines, who+" "+line+", and the definitions do not say so")
		}
	}
	for _, line := range wants {
		if !slices.Contains(has, line) {
			lines = append(lines, who+" should: "+line)
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

// templateLines lists everything in a scope's template.
func templateLines(t jwt.UserPermissionLimits) []string {
	var lines []string
	list := func(p jwt.Permission, verb string) {
		if len(p.Allow)+len(p.Deny) == 0 { // which allows everything
			lines = append(lines, "may "+verb+" "+everything)
		}
		for _, subject := range p.Allow {
			lines = append(lines, "may "+verb+" "+subject)
		}
		for _, subject := range p.Deny {
			lines = append(lines, "may not "+verb+" "+subject)
		}
	}
	list(t.Pub, "publish")
	list(t.Sub, "subscribe")
	if t.Resp != nil {
		lines = append(lines, fmt.Sprintf("may reply %s within %s", countTimes(t.Resp.MaxMsgs), t.Resp.Expires))
	}
	t.Permissions = jwt.Permissions{}
	return append(lines, fields("is limited to", &t)...)
}

func countTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// accountLines lists everything in an account except its signing keys, revocations,
// and issuer and time of issue.
func accountLines(c *jwt.AccountClaims) []string {
	var lines []string
	for _, e := range c.Exports {
		lines = append(lines, "exports "+string(e.Subject)+": "+compact(e))
	}
	for _, i := range c.Imports {
		lines = append(lines, "imports "+string(i.Subject)+": "+compact(i))
	}
	rest := *c
	rest.Exports, rest.Imports, rest.SigningKeys, rest.Revocations = nil, nil, nil, nil
	rest.ID, rest.IssuedAt, rest.Issuer = "", 0, ""
	rest.Type, rest.Version = "", 0
	return append(append(lines, fields("has", &rest.ClaimsData)...), fields("has", &rest.Account)...)
}

// fields states each field of a value: its name and its JSON.
func fields(verb string, value any) []string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(compact(value)), &all); err != nil {
		return []string{verb + " what cannot be read"}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if text := string(all[name]); text != "{}" { // which is empty
			lines = append(lines, verb+" "+name+" "+text)
		}
	}
	return lines
}

// compact returns a value of the JWT library as JSON.
func compact(value any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return ""
	}
	return strings.TrimSpace(text.String())
}
