package guard

import "sync"

// rule is a rule that looks at the hits of its anchors.
type rule struct {
	seed    bool // it is one of the set Seed
	look    func(*redactor, hit)
	anchors []anchor
}

// Words that the last part of a key is, or ends with. "key" needs another part before it: keyParts.
var keyWords = []string{
	"password", "passwd", "pwd", "passphrase", "passcode", "secret", "token", "apikey", "key", "credential", "credentials", "identitytoken", "registrytoken",
}

// authWord is a word of keys whose value is base64 of a user's name and password, as Docker and npm keep them.
const authWord = "auth"

// allRules are the rules that look at lines, in their order: what one has taken is not another's. scanner finds their anchors.
var allRules = sync.OnceValues(func() (all []rule, scanner *finder) {
	add := func(seed bool, look func(*redactor, hit), patterns ...string) {
		r := rule{seed: seed, look: look}
		for _, p := range patterns {
			r.anchors = append(r.anchors, anchor{rule: len(all), sets: parseAnchor(p)})
		}
		all = append(all, r)
	}
	addTokens := func(seed bool) {
		for i := range tokenRules() {
			if t := &tokenRules()[i]; t.Seed == seed {
				all = append(all, rule{seed, func(r *redactor, h hit) { r.token(t, h) }, []anchor{{len(all), t.anchor()}}})
			}
		}
	}
	var keys []string // words, and what follows them
	for _, word := range append([]string{authWord}, keyWords...) {
		keys = append(keys, "(?i)"+word+"[:=\"'`\\\xef]", "(?i)"+word+"[ \t][:= \t\xef]")
	}
	add(true, (*redactor).assignment, `[A-Z0-9_]=`)
	add(false, (*redactor).keyValue, keys...)
	addTokens(true)
	add(true, (*redactor).bearer, "[^A-Za-z0-9](?i)bearer[ \t]")
	addTokens(false)
	add(false, (*redactor).curlProgram, "[^A-Za-z0-9]curl[ \t]")
	add(false, (*redactor).curl, "[ \t]-u[=\"' \tA-Za-z0-9]", "[ \t]--user[= \t]")
	add(false, (*redactor).jwt, `[^A-Za-z0-9]eyJ[A-Za-z0-9_-]`)
	add(false, (*redactor).basic, "[^A-Za-z0-9](?i)basic[ \t]")
	add(false, (*redactor).urlPassword, `://`)
	add(false, (*redactor).signature, `[?&;](?i)sig=`, `[?&;-](?i)signature=`)
	add(false, (*redactor).netrc, "[^A-Za-z0-9]password[ \t]")
	var anchors []anchor
	for _, r := range all {
		anchors = append(anchors, r.anchors...)
	}
	return all, newFinder(anchors)
})
