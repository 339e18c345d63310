package proof_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
)

// Whatever an outsider's account says, once it is signed, is proved or refused,
// and never ends the program.
//
// covers A-SUBJTOK
func FuzzProve(f *testing.F) {
	i := shipped(f, office())
	for _, name := range i.names {
		b := must(json.Marshal(i.accounts[name]))(f)
		f.Add(b)
	}
	f.Add([]byte(`{"nats":{"imports":[null],"exports":[null],"mappings":{"*.>":[{"subject":"$9.{{split(1,x)}}.>"}]},"type":"account","version":2}}`))
	f.Add([]byte(`{"nats":{"imports":[{"subject":"a.*.*","account":"x","to":"a.","local_subject":"$2.$2.>","type":"stream"}],"type":"account","version":2}}`))
	key := pair(f, nkeys.CreateOperator)
	f.Fuzz(func(t *testing.T, body []byte) {
		var claims jwt.AccountClaims
		if json.Unmarshal(body, &claims) != nil {
			return
		}
		claims.Subject = i.accounts[readers].Subject
		token, err := claims.Encode(key)
		if err != nil {
			return
		}
		var c proof.Claims
		if c.Add(token) != nil || c.Add(i.mustToken(t, core)) != nil {
			return
		}
		report, err := proof.Prove(c, proof.Policy{})
		failIf(t, err == nil && report.Accounts == 0, "a proof of nothing")
		for _, h := range report.Holes {
			failIf(t, h.String() == "" || h.Claim == "", "%+v", h)
		}
	})
}

// Text that holds no token, a broken one or a forged one adds nothing.
//
// covers A-JWTSELF
func FuzzAdd(f *testing.F) {
	i := shipped(f, office())
	token := i.mustToken(f, readers)
	f.Add("")
	f.Add(token)
	f.Add("-----BEGIN NATS USER JWT-----\n" + token + "\n------END NATS USER JWT------")
	f.Add(token[:len(token)-8] + base64.RawURLEncoding.EncodeToString([]byte("forged")))
	f.Fuzz(func(t *testing.T, text string) {
		var c proof.Claims
		if err := c.Add(text); err == nil {
			for _, a := range c.Accounts {
				failIf(t, a == nil || a.Subject == "", "an account without a key")
			}
		}
	})
}
