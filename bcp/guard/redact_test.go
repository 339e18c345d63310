package guard

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// shown is a placeholder.
func shown(kind string) string { return "[REDACTED:" + kind + "]" }

func checkRedact(t *testing.T, set Set, text, want string) {
	t.Helper()
	got := Redact(text, set)
	failIf(t, got != want, "%s: %+q\n got %+q\nwant %+q", set, text, got, want)
}

func a(n int) string { return strings.Repeat("a", n) }

// The nine rules of the seed give the same with its set and with all.
//
// covers ALF-48, ALF-53, ALF-54, ALF-55, ALF-56, ALF-57, ALF-58, ALF-59, ALF-60, ALF-61, ALF-62, ALF-63, ALF-64, ALF-65, ALF-66, ALF-67, ALF-68, ALF-69, ALF-70, C-16, C-17, C-18
func TestRulesOfTheSeed(t *testing.T) {
	t.Parallel()
	dotenv, bearer := shown("dotenv"), shown("bearer-token")
	for text, want := range map[string]string{
		// dotenv
		"APP_SECRET=hunter2": "APP_SECRET=" + dotenv, "AUTH_TOKEN=x": "AUTH_TOKEN=" + dotenv, "DB_KEY=x y": "DB_KEY=" + dotenv + " y", "DB_PASSWORD=x": "DB_PASSWORD=" + dotenv,
		"PASSWD=x": "PASSWD=" + dotenv, "MY_API=x": "MY_API=" + dotenv, "APIFOX=1": "APIFOX=" + dotenv, "MONKEY=banana": "MONKEY=" + dotenv, "A_TOKEN=x1\r\nB=2": "A_TOKEN=" + dotenv + "\r\nB=2",
		"u?API_KEY=abc123 tail": "u?API_KEY=" + dotenv + " tail", "SECRET=päss世": "SECRET=" + dotenv, "export SECRET_VALUE=t": "export SECRET_VALUE=" + dotenv,
		`KEY="a b"c d`: "KEY=" + dotenv + " d", "MY_TOKEN='two words'": "MY_TOKEN=" + dotenv, `KEY="unclosed value`: "KEY=" + dotenv + " value", `TOKEN="a\"b c" d`: "TOKEN=" + dotenv + " d",
		"PORT=8080": "PORT=8080", "TOKEN=\nX": "TOKEN=\nX", "TOKEN= x": "TOKEN= x", "PASS=x": "PASS=x", strings.Repeat("A", 65-5) + "TOKEN=x": strings.Repeat("A", 60) + "TOKEN=x",
		// vendors
		"key sk-ant-" + a(10): "key " + shown("anthropic-key"), "sk-ant-" + a(9): "sk-ant-" + a(9), "sk-ant-" + a(10) + "-": shown("anthropic-key") + "-",
		"(sk-" + a(20) + ")": "(" + shown("openai-key") + ")", "sk-" + a(19): "sk-" + a(19), "task-" + a(30): "task-" + a(30), "sk-proj-" + a(20): shown("openai-key"),
		"AKIA" + strings.Repeat("A", 16): shown("aws-access-key"), "AKIA" + strings.Repeat("A", 15): "AKIA" + strings.Repeat("A", 15), "xAKIA" + strings.Repeat("A", 16): "x" + shown("aws-access-key"),
		"AKIA" + strings.Repeat("A", 17): "AKIA" + strings.Repeat("A", 17), "XAKIA" + strings.Repeat("A", 16): "XAKIA" + strings.Repeat("A", 16),
		"ghp_" + a(20): shown("github-token"), "gho_" + a(20): shown("github-token"), "ghp_" + a(19): "ghp_" + a(19), "xghp_" + a(20): "xghp_" + a(20),
		"AIza" + a(35): shown("google-api-key"), "AIza" + a(34): "AIza" + a(34), "AIza" + strings.Repeat("-", 35) + "a": "AIza" + strings.Repeat("-", 35) + "a",
		// bearer
		"Authorization: Bearer abc123": "Authorization: Bearer " + bearer, "authorization=bearer x": "authorization=bearer " + bearer, "Authorization: Bearer  x": "Authorization: Bearer  " + bearer,
		`{\"Authorization\": \"Bearer a.b\"}`: `{\"Authorization\": \"Bearer ` + bearer + `\"}`, "token is Bearer abc123def": "token is Bearer " + bearer, "Bearer abcdef1": "Bearer abcdef1",
		"Bearer of bad news": "Bearer of bad news", "Bearer abcdefgh": "Bearer abcdefgh", "Authorization: Bearer\nabc": "Authorization: Bearer\nabc", `Bearer realm="x"`: `Bearer realm="x"`,
		// blobs
		"hash: " + a(40): "hash: " + shown("hex-blob"), a(39): a(39), strings.Repeat("aB3", 14): shown("hex-blob"), "0x" + a(40): shown("base64-blob"), "_" + a(40): "_" + shown("base64-blob"),
		strings.Repeat("Zz9+", 10): shown("base64-blob"), strings.Repeat("Zz9+", 10) + "Zz9=": shown("base64-blob"), strings.Repeat("Zz9+", 9) + "Zz9": strings.Repeat("Zz9+", 9) + "Zz9",
		// order
		"SIGNING_KEY=" + a(64): "SIGNING_KEY=" + dotenv, "Authorization: Bearer sk-proj-" + a(40): "Authorization: Bearer " + shown("openai-key"),
		"Authorization: Bearer " + strings.Repeat("Zz9+", 12): "Authorization: Bearer " + bearer,
	} {
		set := All
		if strings.Contains(text, "TOKEN=x") && len(text) > 60 {
			set = Keys // what is no assignment is a blob
		} else {
			checkRedact(t, Seed, text, want)
		}
		checkRedact(t, set, text, want)
	}
}

// covers ALF-48
func TestRulesBeyondTheSeed(t *testing.T) {
	t.Parallel()
	dotenv, pem, password := shown("dotenv"), shown("pem"), shown("url-password")
	body := "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDK8Ysb6V7nR3hT\n"
	token := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
	for text, want := range map[string]string{
		"a\n-----BEGIN PRIVATE KEY-----\n" + body + "-----END PRIVATE KEY-----\nb":                             "a\n" + pem + "\nb",
		"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + body + "-----END RSA PRIVATE KEY-----": pem,
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + body + "-----END PGP PRIVATE KEY BLOCK-----":             pem,
		"\"-----BEGIN PRIVATE KEY-----\\n" + body[:60] + "\\n-----END PRIVATE KEY-----\\n\"":                   "\"" + pem + "\\n\"",
		"x -----BEGIN PRIVATE KEY-----\n" + body + body[:30]:                                                   "x " + pem,
		"-----BEGIN PRIVATE KEY-----\n" + body[:63]:                                                            "-----BEGIN PRIVATE KEY-----\n" + body[:63],
		"-----BEGIN PUBLIC KEY-----\n" + body + "-----END PUBLIC KEY-----":                                     "-----BEGIN PUBLIC KEY-----\n" + body + "-----END PUBLIC KEY-----",
		"PRIVATE_KEY=\"-----BEGIN\nAAAA\n-----END\" x":                                                         "PRIVATE_KEY=" + dotenv + " x",
		"KEY='-----BEGIN PRIVATE KEY-----\n" + body + "-----END PRIVATE KEY-----' x":                           "KEY=" + dotenv + " x",

		token: shown("jwt"), "x " + token + ".": "x " + shown("jwt") + ".", "a.b " + token[:20]: "a.b " + token[:20],
		"Authorization: Basic dXNlcjpwYXNzd29yZA==": "Authorization: Basic " + shown("basic-auth"), "curl: Basic dXNlcjpwYXNzd29yZA==": "curl: Basic " + shown("basic-auth"),
		"Authorization: Basic dXNlcjpw": "Authorization: Basic dXNlcjpw", "Basic internationalization": "Basic internationalization",

		"https://bob:hunter2@h.test/": "https://bob:" + password + "@h.test/", "redis://:s3cret@h": "redis://:" + password + "@h", "http://u:p@ss@h/": "http://u:" + password + "@h/",
		"http://u:ab@h": "http://u:ab@h", "http://u:$PASS@h": "http://u:$PASS@h", "http://u:password@h": "http://u:password@h", "https://h:8080/a@b": "https://h:8080/a@b", "ssh://git@h:22/x": "ssh://git@h:22/x",

		"12345678:AA" + strings.Repeat("x", 33): shown("telegram-token"), strings.Repeat("0a", 16) + "-us12": shown("mailchimp-key"), "ab~1Q~" + strings.Repeat("x", 31): shown("azure-client-secret"),
		strings.Repeat("x", 14) + ".atlasv1." + strings.Repeat("y", 60): shown("terraform-token"), "pat" + strings.Repeat("x", 14) + "." + a(64): shown("airtable-token"),
		"k " + a(32) + "." + strings.Repeat("b", 16) + " ok": "k " + shown("zhipu-glm-key") + " ok",

		"sk-ssh-ed25519-cert-v01@openssh.com": "sk-ssh-ed25519-cert-v01@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com": "sk-ecdsa-sha2-nistp256@openssh.com",
	} {
		checkRedact(t, Keys, text, want)
	}
	checkRedact(t, Seed, "sk-ssh-ed25519-cert-v01@openssh.com", shown("openai-key")+"@openssh.com")
	checkRedact(t, Seed, "password = x9K!mfa2 "+token+" https://bob:hunter2@h.test/", "password = x9K!mfa2 "+token+" https://bob:hunter2@h.test/")
}

// An assignment in any case is one if its key ends with a word of a secret and its value could be one.
//
// covers ALF-48, C-16
func TestAssignmentsInAnyCase(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"password", "db_password", "dbPassword", "DB_PASSWORD", "clientSecret", "x-api-key", "apiKey", "apikey", "aws_secret_access_key", "AccountKey", "auth.token", "refreshToken", "passphrase", "credentials"} {
		for _, form := range []string{"%s: V", "%s = V end", `{"%s":"V"}`, `{\"%s\": \"V\"}`, `%s => "V"`, "%s := 'V'", "--%s=V x", "?%s=V&b=1"} {
			if key == "DB_PASSWORD" && strings.Contains(form, "=V") {
				continue // the form in capitals
			}
			form = strings.Replace(form, "%s", key, 1)
			checkRedact(t, All, strings.Replace(form, "V", "x9K!mfa2", 1), strings.Replace(form, "V", shown("dotenv"), 1))
		}
	}
	for _, text := range []string{
		`secret_key = os.environ["SECRET1"]`, `"password": {"type": "string", "minLength": 8}`, "client_secret: YOUR_CLIENT_SECRET1", "if token == tok1abc {", "token != abc12345", "PrivateKey: testRSA2048PrivateKey",
		"passwordField.value = 12345678", `"max_tokens": 100000`, "keyboard: us-104ab", "sort_key=created_at1", "Passwords: rotate1ab", "secret:", "apiVersion: apps/v1beta1", `"nextPageToken": ""`,
		"password-manager: 1password", "key=k3y9f8e7d6c5", "monkey: k3y9f8e7d6c5", "public_key: 8f14e45fceea167a", "token: ${TOKEN1}", "token: $TOKEN1", "token: {{ token1 }}", "secret: <secret-1>", "token: %TOKEN1%",
		"secret: /run/secrets/db1", "token: https://auth.test/t1", "password = read1(x)", "token: 12345678", "token: 2026-11-22", "token: 10.20.30.40", "secret: aaaaaaa1", "secret: hunter", "secret: abc12", "token: OAuth2",
		"secret: AES256-GCM", "token: HS256x"[:12], "password: changeme1", "api_key: xxxxxxx1", "secret: pässwort1", "token: cfg.Token1", "token: t.Tok1", "secret_name: k3y9f8e7d6c5", "password: \"two words 1\"",
	} {
		checkRedact(t, All, text, text)
	}
}

// Passwords where programs keep and take them, beside what only looks like one.
//
// covers ALF-48, C-16
func TestPasswordsOfPrograms(t *testing.T) {
	t.Parallel()
	user, dotenv, signature := shown("user-password"), shown("dotenv"), shown("url-signature")
	const sas = "Zx9%2Bq8Wv7Ut6Sr5Qp4On3Ml2Kj1Ih0Gf9Ed8Cb7A%3D"
	for text, want := range map[string]string{
		// Docker and npm
		`{"auths":{"r.test":{"auth":"dXNlcjpwYXNzd29yZA=="}}}`: `{"auths":{"r.test":{"auth":"` + dotenv + `"}}}`, "//r.test/:_auth=dXNlcjpwYXNzd29yZA==": "//r.test/:_auth=" + dotenv, "  auth: dXNlcjpwYXNzd29yZA==": "  auth: " + dotenv,
		`"identitytoken": "x9K!mfa2"`: `"identitytoken": "` + dotenv + `"`, `"auth": "basic"`: `"auth": "basic"`, `"auth": "bm90aGluZyBoZXJl"`: `"auth": "bm90aGluZyBoZXJl"`, `"auth": "x9K!mfa2"`: `"auth": "x9K!mfa2"`, "oauth: dXNlcjpwYXNz": "oauth: dXNlcjpwYXNz",
		// curl
		"curl -u bob:hunter2 https://h.test/": "curl -u bob:" + user + " https://h.test/", "curl -s -u 'bob:two words' h": "curl -s -u 'bob:" + user + "' h", `$ curl --user "bob:hunter2" h`: `$ curl --user "bob:` + user + `" h`, "curl --user=bob:hunter2 h": "curl --user=bob:" + user + " h",
		"curl -ubob:hunter2": "curl -ubob:" + user, "(curl -u bob:hunter2)": "(curl -u bob:" + user + ")", "/usr/bin/curl -X POST -u :hunter2 h; ls": "/usr/bin/curl -X POST -u :" + user + " h; ls",
		"curl -u bob https://h:8080/": "curl -u bob https://h:8080/", "curl -u $USER:$PASS h": "curl -u $USER:$PASS h", "curl -u user:password h": "curl -u user:password h", "curl -u bob: h": "curl -u bob: h", "docker run -u 1000:1000 curl x": "docker run -u 1000:1000 curl x",
		"mysql -u bob:hunter2": "mysql -u bob:hunter2", "curly -u bob:hunter2": "curly -u bob:hunter2", "curl --unix-socket a:bcd": "curl --unix-socket a:bcd", "curl x-u bob:hunter2": "curl x-u bob:hunter2", "curl -u bob:ab h": "curl -u bob:ab h",
		// netrc
		"machine h.test login bob password hunter2": "machine h.test login bob password " + user, "machine h login b password x9K!mfa2 account z": "machine h login b password " + user + " account z", "machine h.test password hunter2": "machine h.test password " + user,
		"machine h\n  login bob\n  password x9K!mfa2\n": "machine h\n  login bob\n  password " + user + "\n", "\tpassword x9K!mfa2\r\n": "\tpassword " + user + "\r\n",
		"password reset": "password reset", "  password must change2 today": "  password must change2 today", "the login page password field": "the login page password field", "login with password authentication": "login with password authentication", "machine h login b password $PASS": "machine h login b password $PASS",
		// signatures
		"https://a.test/b?sv=2023&sig=" + sas + "&se=1": "https://a.test/b?sv=2023&sig=" + signature + "&se=1", "?sig=" + sas: "?sig=" + signature, "https://s3.test/k?X-Amz-Signature=" + a(63) + "1": "https://s3.test/k?X-Amz-Signature=" + signature,
		"&amp;Signature=" + sas: "&amp;Signature=" + signature, "?sig=abc": "?sig=abc", "sig=" + a(20): "sig=" + a(20), "?config=" + strings.Repeat("x1", 15): "?config=" + strings.Repeat("x1", 15), "?sig=" + strings.Repeat("z", 32): "?sig=" + strings.Repeat("z", 32),
		// signs of another width
		"password：x9K!mfa2": "password：" + dotenv, "api_key ： x9K!mfa2": "api_key ： " + dotenv, "token＝x9K!mfa2 end": "token＝" + dotenv + " end", "password：reset": "password：reset",
		// programs and grammars
		"token = 1*tchar": "token = 1*tchar", "const maxToken = 4*Max": "const maxToken = 4*Max", "maxSecret := 64*kib1": "maxSecret := 64*kib1", "auth-token = 2*DIGIT1": "auth-token = 2*DIGIT1", "secret = size1*2": "secret = size1*2",
		"token = x9K*mfa2": "token = " + dotenv, "token = 12*34*x9K": "token = " + dotenv, `token = "4*x9K!mfa"`: `token = "` + dotenv + `"`,
	} {
		checkRedact(t, Keys, text, want)
	}
}

// tokenOf returns a token of a rule with n characters behind the prefix.
func tokenOf(rule tokenRule, n int) string {
	pool := ""
	for c := byte('0'); c <= 'z'; c++ {
		if rule.Class.has(c) && isWordByte(c) {
			pool += string(c)
		}
	}
	var b strings.Builder
	b.WriteString(rule.Prefix)
	for i := range n {
		b.WriteByte(pool[(7*i+3)%len(pool)])
	}
	return b.String()
}

// Every rule of tokens.json finds its shortest token, and not one that is shorter, or glued to a word.
//
// covers ALF-48, ALF-70
func TestVendorTokens(t *testing.T) {
	t.Parallel()
	seen, kinds := map[string]bool{}, map[string]bool{}
	for _, rule := range tokenRules() {
		kinds[rule.Kind] = true
		if rule.Before != (byteSet{}) || rule.Seed {
			continue // other tests have them
		}
		failIf(t, seen[rule.Prefix], "%s: there are two rules", rule.Prefix)
		seen[rule.Prefix] = true
		token := tokenOf(rule, rule.Min)
		checkRedact(t, Keys, "is "+token+" it", "is "+shown(rule.Kind)+" it")
		checkRedact(t, Keys, `{"v":"`+token+`","w":1}`, `{"v":"`+shown(rule.Kind)+`","w":1}`)
		checkRedact(t, Keys, "is "+tokenOf(rule, rule.Min-1)+" it", "is "+tokenOf(rule, rule.Min-1)+" it")
		checkRedact(t, Keys, "isA"+token+" it", "isA"+token+" it")
		if short := "is " + tokenOf(rule, min(rule.Min, 30)) + " it"; !strings.Contains(rule.Prefix, "/") && len(rule.Prefix) < 10 { // no blob
			checkRedact(t, Seed, short, short)
		}
	}
	failIf(t, len(tokenRules()) < 118 || len(kinds) < 57, "%d rules of %d kinds", len(tokenRules()), len(kinds))
}

func TestTokensFileIsChecked(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"", "{}", `[{"kind": "x-key", "prefix": "xx_", "class": "alnum", "min": 20, "more": 1}]`, `[{"kind": "X", "prefix": "xx_", "class": "alnum", "min": 20}]`, `[{"kind": "x", "prefix": "x", "class": "alnum", "min": 20}]`,
		`[{"kind": "x", "prefix": "xx_", "min": 20}]`, `[{"kind": "x", "prefix": "xx_", "class": "alnum", "min": 7}]`, `[{"kind": "x", "prefix": "xx_", "class": "alnum", "min": 20, "max": 19}]`,
	} {
		_, err := parseTokens([]byte(file))
		failIf(t, err == nil, "%s is taken", file)
	}
}

// covers ALF-70
func TestBlobsAreNoNames(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"testClientStripHeadersOnPostToGetRedirect", "/home/user/projects/alfred/src/security/redact", "this_is_a_very_long_snake_case_identifier_in_a_python_module", "Donaudampfschifffahrtsgesellschaft",
		"https://github.com/bcpmesh/bcpmesh/blob/main/mesh/supervisor/supervisor_test.go#L10-L20", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384_and_more_of_it", "Format/Object/NoSpaceAfterColon+SpaceAfterComma+Multiline",
		strings.Repeat("-", 80), strings.Repeat("/", 80), strings.Repeat("+", 80), strings.Repeat("=", 80), "bg-gradient-to-r from-indigo-500 via-purple-500 to-pink-500 hover:from-pink-500",
		"https://github.com/pornin/ecgfp/blob/82325b965/rust/src/field",
	} {
		checkRedact(t, All, text, text)
	}
	checkRedact(t, Seed, "/home/user/projects/alfred/src/security/redact", shown("base64-blob"))
	checkRedact(t, All, "3q2-7wAAy_8ZkQmL0pXvB1sTnR4uYcHjWgDfEaKiOoPx", shown("base64-blob"))
	checkRedact(t, All, "Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-_a", "Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-Zz9-_a")
	for _, text := range []string{"commit " + a(40), strings.Repeat("Zz9+", 12)} {
		checkRedact(t, Keys, text, text)
	}
}

// covers ALF-69
func TestPlaceholdersStay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"API_KEY=[REDACTED:dotenv] [REDACTED:hex-blob] Authorization: Bearer [REDACTED:bearer-token]": "API_KEY=[REDACTED:dotenv] [REDACTED:hex-blob] Authorization: Bearer [REDACTED:bearer-token]",
		"KEY=a[REDACTED:hex-blob]b c":                 "KEY=[REDACTED:dotenv] c",
		`KEY="x [REDACTED:pem] y" c`:                  "KEY=[REDACTED:dotenv] c",
		"[REDACTED:UPPER]":                            "[REDACTED:UPPER]",
		"sk-" + a(30) + "[REDACTED:x]":                "sk-" + a(30) + "[REDACTED:x]", // goes on in the placeholder
		"[REDACTED:x]sk-" + a(30):                     "[REDACTED:x]sk-" + a(30),
		"[REDACTED:x]" + strings.Repeat("Z", 40):      "[REDACTED:x]" + shown("base64-blob"),
		"[REDACTED:" + strings.Repeat("x", 33) + "]=": "[REDACTED:" + strings.Repeat("x", 33) + "]=",
		"[REDACTED:]":                                 "[REDACTED:]",
	} {
		checkRedact(t, All, text, want)
	}
}

func TestInvisibleCharactersHideNothing(t *testing.T) {
	t.Parallel()
	for _, r := range "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2800\ufe0f\ue000\U000e0041\x00\x1b\x7f" {
		z := string(r)
		checkRedact(t, All, z+"x"+z+" gh"+z+"p_"+a(10)+z+z+a(26)+z+" y"+z, z+"x"+z+" "+shown("github-token")+z+" y"+z)
		checkRedact(t, All, "a"+z+"b", "a"+z+"b")
		checkRedact(t, All, "[REDAC"+z+"TED:dotenv]", "[REDAC"+z+"TED:dotenv]")
	}
	checkRedact(t, All, "\xff ghp_"+a(20)+"\xff\xe2\x80", "\xff "+shown("github-token")+"\xff\xe2\x80")
}

// covers ALF-52
func TestFindChangesNothing(t *testing.T) {
	t.Parallel()
	text := "a ghp_" + a(20) + " KEY=v\u200bw b"
	before := strings.Clone(text)
	found := Find(text, All)
	expect(t, text, before, "the text has changed")
	want := []Finding{{Start: 2, End: 26, Kind: "github-token", Certain: true}, {Start: 31, End: 36, Kind: "dotenv"}}
	failIf(t, !slices.Equal(found, want), "%+v, want %+v", found, want)
	plain := "nothing in it"
	failIf(t, Redact(plain, All) != plain || len(Find(plain, All)) != 0, "plain text is not returned as it is")
}

func TestRedactToHidesASecretWhole(t *testing.T) {
	t.Parallel()
	text := "x ghp_" + a(36) + " y sk-" + a(30)
	for end, want := range map[int]string{0: "", 1: "x", 2: "x ", 3: "x " + shown("github-token"), 42: "x " + shown("github-token"), 43: "x " + shown("github-token") + " ", len(text): "x " + shown("github-token") + " y " + shown("openai-key"), 1000: "x " + shown("github-token") + " y " + shown("openai-key"), -1: ""} {
		expect(t, RedactTo(text, end, All), want, "%d", end)
	}
}

func TestSets(t *testing.T) {
	t.Parallel()
	for _, set := range []Set{All, Keys, Seed} {
		got, err := ParseSet(set.String())
		failIf(t, err != nil || got != set, "%s: %v, %v", set, got, err)
	}
	_, err := ParseSet("none")
	failIf(t, err == nil, "an unknown set is taken")
	var zero Set
	failIf(t, zero != All || Set(9).String() == "", "the zero value does not redact the most")
}

// The limits of what goes over a line, or of a line, at the limit and one past it.
func TestRedactLimits(t *testing.T) {
	t.Parallel()
	begin, end := "-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----"
	room := maxBlock - len(begin) - len(end)
	checkRedact(t, Keys, "a\n"+begin+strings.Repeat("?", room)+end+" b", "a\n"+shown("pem")+" b")
	long := "a\n" + begin + strings.Repeat("?", room+1) + end + " b"
	checkRedact(t, Keys, long, long)

	// A run is one run, whatever its length.
	for _, n := range []int{40, 60 << 10, 64 << 10, 64<<10 + 1, 300 << 10, 1 << 20} {
		checkRedact(t, All, "x "+strings.Repeat("Zz9+", n/4+10)+" y", "x "+shown("base64-blob")+" y")
		checkRedact(t, All, "KEY="+strings.Repeat("?!", n)+" y", "KEY="+shown("dotenv")+" y")
	}
	// A line may be long.
	secret := " ghp_" + a(36) + " password: x9K!mfa2 Authorization: Bearer a1 KEY=\"a b c\" "
	result := " " + shown("github-token") + " password: " + shown("dotenv") + " Authorization: Bearer " + shown("bearer-token") + " KEY=" + shown("dotenv") + " "
	checkRedact(t, All, strings.Repeat("some words and"+secret, 20000), strings.Repeat("some words and"+result, 20000))
	// Quoted values are looked at for 4 KiB.
	checkRedact(t, All, `KEY="`+strings.Repeat("a ", 2046)+`" b`, "KEY="+shown("dotenv")+" b")
	checkRedact(t, All, `KEY="`+strings.Repeat("a ", 2050)+`" b`, "KEY="+shown("dotenv")+" "+strings.Repeat("a ", 2049)+`" b`)
}

// failingWriter fails at the nth write.
type failingWriter struct{ left int }

var errWriter = errors.New("the writer fails")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errWriter
	}
	return len(p), nil
}

func TestStreamReportsItsWriter(t *testing.T) {
	t.Parallel()
	s := NewStream(&failingWriter{left: 1}, All)
	_, err := s.Write([]byte("one\n"))
	noError(t, err)
	_, err = s.Write([]byte("two\n"))
	failIf(t, !errors.Is(err, errWriter), "%v", err)
	_, err = s.Write([]byte("three\n"))
	failIf(t, !errors.Is(err, errWriter), "after the error: %v", err)
	fails(t, s.Close(), errWriter, "close")
	closed := NewStream(io.Discard, All)
	expect(t, errors.Join(closed.Close(), closed.Close()), nil, "closed twice")
	_, err = closed.Write([]byte("x"))
	failIf(t, err == nil, "a closed stream takes text")
}

// A line comes out with its end, and what is held back is bounded.
func TestStreamHoldsTheLastLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := NewStream(&out, All)
	write := func(text string) string {
		out.Reset()
		_, err := s.Write([]byte(text))
		noError(t, err)
		return out.String()
	}
	expect(t, write("one\nghp_aaaaaaaa"), "one\n", "got")
	expect(t, write(a(30)+" x\n"), shown("github-token")+" x\n", "got")
	// A line that is longer than 1 MiB is withheld up to its end.
	line := strings.Repeat("word ", maxLine/5+1)
	got := write(line[:maxLine]+"\n") + write("KEY=a\n"+line[:maxLine])
	failIf(t, got != line[:maxLine]+"\nKEY="+shown("dotenv")+"\n", "%.100q of %d bytes", got, len(got))
	got = write("x")
	failIf(t, got != shown("long-line") || len(s.rest) > 0, "%.100q, %d bytes are held back", got, len(s.rest))
	got = write(line) + write("more\npassword: x9K!mfa2\n")
	failIf(t, got != "\npassword: "+shown("dotenv")+"\n", "%.100q", got)
}

// covers ALF-48, P3.6
func TestHasSecretIsWhatKeysFind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "plain": false, "=": false, "ghp_aaaaaaaaaaaaaaaaaaaa": true, "ghp_aaaaaaaaaaaaaaaaaaa": false,
		"x ghp_aaaaaaaaaa\u200baaaaaaaaaa": true, "password: x9K!mfa2": true, "the password is x9K!mfa2": false,
		"a6a3dcd4b8505961830606002c86b9a2390be46a": false, "[REDACTED:github-token]": false, "\xffA_KEY=b": true,
	} {
		got := HasSecret([]byte(text))
		failIf(t, got != want || got != (len(Find(text, Keys)) > 0), "%q: %v", text, got)
	}
}
