package accounts_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// forger writes whatever it likes into the accounts of a mesh, and signs it with the
// operator's own key.
type forger struct {
	bundle   accounts.Bundle
	operator nkeys.KeyPair
	contents []map[string]any // of the accounts' JWTs
}

func newForger(t testing.TB) *forger {
	t.Helper()
	folder := t.TempDir()
	f := &forger{bundle: must(accounts.CompileCluster(must(accounts.Create(folder))(t), scopes(), now))(t)}
	f.operator = must(nkeys.FromSeed(must(os.ReadFile(filepath.Join(folder, "keys", "operator-signing.nk")))(t)))(t)
	for _, a := range f.bundle.Accounts {
		var says map[string]any
		noError(t, json.Unmarshal(must(base64.RawURLEncoding.DecodeString(strings.Split(a.JWT, ".")[1]))(t), &says))
		f.contents = append(f.contents, says)
	}
	return f
}

// sign makes an account's JWT of any content.
func (f *forger) sign(content []byte) (string, error) {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`))
	text := header + "." + base64.RawURLEncoding.EncodeToString(content)
	signature, err := f.operator.Sign([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// check has the mesh read its accounts with one that was forged. Either that is not
// read, or the differences tell, or nothing that counts was changed.
func (f *forger) check(account int, content []byte) error {
	token, err := f.sign(content)
	if err != nil {
		return err
	}
	tokens := tokensOf(f.bundle)
	tokens[account] = token
	read, err := accounts.Enforced(f.bundle.Operator, tokens)
	if err != nil {
		if !errors.Is(err, accounts.ErrNotOurs) {
			return fmt.Errorf("it is refused with %w", err)
		}
		return nil
	}
	if len(read.Differences(scopes())) > 0 {
		return nil
	}
	var says map[string]any
	if err := json.Unmarshal(content, &says); err != nil {
		return fmt.Errorf("what is no JSON object passes: %w", err)
	}
	if had, has := spare(effects(f.contents[account])), spare(effects(says)); !reflect.DeepEqual(had, has) {
		return fmt.Errorf("it passes with %v in place of %v", has, had)
	}
	return nil
}

// effects is what counts of an account's claims: all but when they were signed, who is
// revoked, and which keys stand for one scope.
func effects(says map[string]any) map[string]any {
	all := maps.Clone(says)
	for _, key := range []string{"iat", "jti", "iss"} {
		delete(all, key)
	}
	nats, _ := all["nats"].(map[string]any)
	nats = maps.Clone(nats)
	delete(nats, "revocations")
	delete(nats, "type")
	delete(nats, "version")
	all["nats"] = nats
	scopes := map[string]any{}
	list, _ := nats["signing_keys"].([]any)
	for _, s := range list {
		scope, _ := s.(map[string]any)
		template, _ := scope["template"].(map[string]any)
		template = maps.Clone(template)
		if role := fmt.Sprint(scope["role"]); strings.Contains(role, "-") { // an agent's, which may have restrictions
			delete(template, "src")
			delete(template, "allowed_connection_types")
		}
		scopes[fmt.Sprint(scope["role"])] = template
	}
	nats["signing_keys"] = scopes
	for _, key := range []string{"exports", "imports"} { // in any order
		list, _ := nats[key].([]any)
		set := map[string]bool{}
		for _, e := range list {
			text, _ := json.Marshal(e) // what was decoded can be encoded
			set[string(text)] = true
		}
		nats[key] = set
	}
	return all
}

// spare drops what says as much as nothing.
func spare(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			if value = spare(value); value != nil {
				m[key] = value
			}
		}
		if len(m) > 0 {
			return m
		}
		return nil
	case []any:
		if len(v) == 0 {
			return nil
		}
	case string, bool, float64:
		if reflect.ValueOf(v).IsZero() {
			return nil
		}
	}
	return v
}

// words are values that mean something in claims.
var words = []any{">", "*", "$JS.API.>", "bcp.v1.>", "x", "", true, false, nil, 0.0, 1.0, -1.0, 1e9, []any{}, []any{">"}, map[string]any{},
	map[string]any{"allow": []any{">"}}, "LEAFNODE", "IN_PROCESS", []any{"STANDARD", "MQTT"}, "reader-researcher", "controller-main", "gateway", "10.0.0.0/8"}

var fieldNames = []string{"pub", "sub", "allow", "deny", "resp", "max", "ttl", "src", "times", "bearer_token", "mappings", "trace", "authorization", "token_req",
	"share", "allow_trace", "local_subject", "to", "exp", "nbf", "aud", "cluster_traffic", "default_permissions", "leaf", "jwt", "role", "subs", "payload", "advertise"}

// mutate changes one thing somewhere in a JSON value.
func mutate(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := maps.Clone(v)
		if rapid.IntRange(0, 3).Draw(t, "add a field") == 0 || len(m) == 0 {
			m[rapid.SampledFrom(fieldNames).Draw(t, "name")] = rapid.SampledFrom(words).Draw(t, "value")
			return m
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, "field")
		if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
			delete(m, name)
			return m
		}
		m[name] = mutate(t, m[name])
		return m
	case []any:
		list := slices.Clone(v)
		if rapid.IntRange(0, 3).Draw(t, "add an element") == 0 || len(list) == 0 {
			return append(list, rapid.SampledFrom(words).Draw(t, "element"))
		}
		at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
		if rapid.IntRange(0, 5).Draw(t, "remove") == 0 {
			return slices.Delete(list, at, at+1)
		}
		list[at] = mutate(t, list[at])
		return list
	}
	return rapid.SampledFrom(words).Draw(t, "value")
}

// The library that decodes claims passes a null for an import or an export.
//
// covers A-JWTSELF
func TestNullsInClaimsAreRefused(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	for i, contents := range f.contents {
		for _, field := range []string{"exports", "imports"} {
			nats := maps.Clone(contents["nats"].(map[string]any))
			list, _ := nats[field].([]any)
			nats[field] = append(slices.Clone(list), nil)
			says := maps.Clone(contents)
			says["nats"] = nats
			content := must(json.Marshal(says))(t)
			token := must(f.sign(content))(t)
			tokens := tokensOf(f.bundle)
			tokens[i] = token
			if _, err := accounts.Enforced(f.bundle.Operator, tokens); !errors.Is(err, accounts.ErrNotOurs) {
				t.Errorf("account %s with a null among its %s: %v, want it refused", f.bundle.Accounts[i].Name, field, err)
			}
		}
	}
}

// However claims are changed that the operator's key has signed, a gateway refuses
// them, or tells the difference, or nothing that they grant is another.
//
// covers A-WILD, A-JWTSELF, SUB-9
func TestNoForgedClaimPassesForTheDefinitions(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	for i := range f.contents {
		noError(t, f.check(i, must(json.Marshal(f.contents[i]))(t)))
	}
	rapid.Check(t, func(t *rapid.T) {
		account := rapid.IntRange(0, len(f.contents)-1).Draw(t, "account")
		forged := mutate(t, f.contents[account])
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			forged = mutate(t, forged)
		}
		noError(t, f.check(account, must(json.Marshal(forged))(t)))
	})
}

// Any bytes as an account's claims that the operator's key has signed.
//
// covers A-WILD, A-CRASH
func FuzzEnforced(fuzz *testing.F) {
	f := newForger(fuzz)
	for i := range f.contents {
		content := must(json.Marshal(f.contents[i]))(fuzz)
		if len(content) < 4<<10 { // larger ones are made smaller most of the time
			fuzz.Add(uint8(i), content)
		}
	}
	fuzz.Fuzz(func(t *testing.T, account uint8, content []byte) {
		noError(t, f.check(int(account)%len(f.contents), content))
	})
}
