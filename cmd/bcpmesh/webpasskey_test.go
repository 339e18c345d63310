package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

const siteHost, siteOrigin = "mesh.example.org", "https://mesh.example.org"

// certificateOf makes a certificate of a host, and whom to trust for it.
func certificateOf(t *testing.T, host string) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	pair := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, pair.Public(), pair))(t)
	text := must(x509.MarshalPKCS8PrivateKey(pair))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text}} {
		noError(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	parsed := must(x509.ParseCertificate(der))(t)
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	return cert, key, trust
}

// visitor is a browser of another machine, which finds the site at an address.
func visitor(t *testing.T, address string, trust *x509.CertPool) *browser {
	t.Helper()
	jar := must(cookiejar.New(nil))(t)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: trust}}
	return &browser{siteOrigin, "", &http.Client{Jar: jar, Transport: transport, Timeout: clustertest.Patience}}
}

// serveSite runs "web" with passkeys until stop, and returns where it listens.
func serveSite(t *testing.T, args ...string) (address string) {
	t.Helper()
	found, _ := serving(t, regexp.MustCompile(`pages of `+siteOrigin+` at (127\.0\.0\.1:[0-9]+)\n`),
		append([]string{"web", "--listen", "127.0.0.1:0", "--origin", siteOrigin}, args...)...)
	return found[1]
}

// finger is a person's device: it signs what a page asks for.
type finger struct{ *meshtest.Passkey }

func (f finger) id() string { return base64.RawURLEncoding.EncodeToString(f.PublicKey[:16]) }

// sign is what page.js fills in.
func (f finger) sign(t *testing.T, statement string, form url.Values) url.Values {
	t.Helper()
	challenge := sha256.Sum256([]byte(statement))
	a := f.Sign(t, challenge[:])
	filled := url.Values{"authenticator_data": {a.AuthenticatorData}, "client_data": {a.ClientData}, "assertion": {a.Signature}}
	for name, values := range form {
		filled[name] = values
	}
	return filled
}

func (f finger) enrolment(token string) url.Values {
	return url.Values{"token": {token}, "id": {f.id()}, "public_key": {base64.RawURLEncoding.EncodeToString(f.PublicKey)}}
}

var (
	loginNonce = regexp.MustCompile(`data-sign="login" data-nonce="([^"]+)"`)
	sixWords   = regexp.MustCompile(`class="words">([a-z ]+)<`)
)

func loginText(origin, nonce string) string {
	return "bcpmesh login 1\norigin " + origin + "\nnonce " + nonce + "\n"
}

// enter posts a login, which leads to the place of the session.
func (b *browser) enter(t *testing.T, form url.Values) (int, string) {
	t.Helper()
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		b.place = strings.TrimSuffix(r.URL.Path, "/")
		return nil
	}
	defer func() { b.client.CheckRedirect = nil }()
	return b.post(t, "/login", "same-origin", form)
}

// logIn answers the page of the login.
func (b *browser) logIn(t *testing.T, f finger) (int, string) {
	t.Helper()
	_, page := b.get(t, "/login")
	nonce := first(t, loginNonce, page)
	return b.enter(t, f.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {f.id()}}))
}

// decision is the statement that the form of an act on an item's page asks for.
func decision(t *testing.T, page, act, reason string) string {
	t.Helper()
	form := first(t, regexp.MustCompile(`<form [^>]*(data-sign="`+act+`"[^>]*)>`), page)
	digest := sha256.Sum256([]byte(reason))
	of := hex.EncodeToString(digest[:])
	if reason == "" {
		of = first(t, regexp.MustCompile(`data-digest="([0-9a-f]{64})"`), form)
		content, err := base64.RawURLEncoding.DecodeString(first(t, regexp.MustCompile(`data-content="([^"]+)"`), form))
		if digest := sha256.Sum256(content); err != nil || hex.EncodeToString(digest[:]) != of {
			t.Fatalf("the page has %q, of which %s is not the digest", content, of)
		}
	}
	return "bcpmesh approval 1\nitem " + first(t, regexp.MustCompile(`data-item="([^"]+)"`), form) + "\ndecision " + act + "\nsha256 " + of +
		"\nexpires " + first(t, regexp.MustCompile(`data-expires="([0-9]+)"`), form) + "\n"
}

// People of other machines enrol a passkey with an invitation, log in with it over TLS
// 1.3, and decide with it: no decision counts that it did not sign for just this item and
// act, and the record of each can be checked. An invitation is good once, what logs in is
// signed for this page alone, and who is revoked is out.
//
// covers P7.3, P7.5, A-SELFAPP
func TestDecideWithAPasskey(t *testing.T) {
	t.Parallel()
	dir := heldMesh(t)
	startMesh(t, dir)
	cert, key, trust := certificateOf(t, siteHost)
	address := serveSite(t, "--dir", dir, "--tls-cert", cert, "--tls-key", key)
	b := visitor(t, address, trust)
	run := inMesh(t, dir)
	kim, other := finger{meshtest.NewPasskey(t, siteHost)}, finger{meshtest.NewPasskey(t, siteHost)}

	if _, page := b.get(t, "/approvals"); !strings.Contains(page, "Log in with your passkey") {
		t.Errorf("a stranger sees %s", page)
	}
	if _, page := b.post(t, "/login", "same-origin", url.Values{"token": {"x"}}); !strings.Contains(page, "does not log in here") {
		t.Errorf("a code: %s", page)
	}
	old := visitor(t, address, trust)
	old.client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, old.base+"/login", nil))(t)
	if reply, err := old.client.Do(request); err == nil {
		t.Errorf("TLS 1.2 is taken: %d", reply.StatusCode)
		_ = reply.Body.Close()
	}
	foreign := visitor(t, address, trust)
	request = must(http.NewRequestWithContext(t.Context(), http.MethodGet, foreign.base+"/login", nil))(t)
	request.Host = "localhost"
	if status, _ := foreign.do(t, request); status != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", status)
	}

	invitation := strings.TrimSpace(run("creds", "invite", "kim", "--role", "approver", "--web", siteOrigin))
	at, token, ok := strings.Cut(invitation, "#")
	stopIf(t, !ok || at != siteOrigin+"/enrol?as=kim", "the invitation is %s", invitation)
	b.sees(t, "/enrol?as=kim", "as kim", `data-sign="enrol"`)
	for _, form := range map[string]url.Values{
		"no key": {"token": {token}, "id": {kim.id()}}, "no id": {"token": {token}, "public_key": kim.enrolment(token)["public_key"]},
		"a key that signs nothing": {"token": {token}, "id": {kim.id()}, "public_key": {"AAAA"}},
	} {
		b.posts(t, "/enrol", form, http.StatusUnprocessableEntity, "")
	}
	b.posts(t, "/enrol", kim.enrolment("bcpjoin1.x"), http.StatusForbidden, "does not accept this invitation")
	status, page := b.post(t, "/enrol", "same-origin", kim.enrolment(token))
	stopIf(t, status != http.StatusOK || !strings.Contains(page, "You decide as kim"), "enrolling: %d %s", status, page)
	words := first(t, sixWords, page)
	failIf(t, words != accounts.PasskeyWords(kim.Hash()) || !strings.Contains(run("creds"), "passkey "+words),
		"creds does not show the words %s", words)
	b.posts(t, "/enrol", other.enrolment(token), http.StatusForbidden, "")
	b.posts(t, "/enrol", other.enrolment(""), http.StatusOK, "bcpmesh creds issue NAME --role approver --passkey NAME.passkey")

	nonceOf := func() string { _, page := b.get(t, "/login"); return first(t, loginNonce, page) }
	nonce, elsewhere := nonceOf(), kim
	elsewhere.Passkey = new(meshtest.Passkey)
	*elsewhere.Passkey = *kim.Passkey
	elsewhere.Origin = "https://evil.example.org"
	otherPort := kim
	otherPort.Passkey = new(meshtest.Passkey)
	*otherPort.Passkey = *kim.Passkey
	otherPort.Origin = siteOrigin + ":8443" // the same site, but somebody else's pages
	for _, form := range map[string]url.Values{
		"another passkey":           other.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"one that nobody enrolled":  other.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {other.id()}}),
		"on another page":           elsewhere.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"on another port":           otherPort.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"for another page":          kim.sign(t, loginText("https://evil.example.org", nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"another nonce":             kim.sign(t, loginText(siteOrigin, nonceOf()), url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"a nonce that is not ours":  kim.sign(t, loginText(siteOrigin, "AAAA"), url.Values{"nonce": {"AAAA"}, "id": {kim.id()}}),
		"nothing signed":            {"nonce": {nonce}, "id": {kim.id()}},
		"no id":                     kim.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}}),
		"a decision for a login":    kim.sign(t, "bcpmesh approval 1\nitem i1\ndecision approve\n", url.Values{"nonce": {nonce}, "id": {kim.id()}}),
		"a nonce with more in it":   kim.sign(t, loginText(siteOrigin, nonce+"A"), url.Values{"nonce": {nonce + "A"}, "id": {kim.id()}}),
		"a nonce in another letter": kim.sign(t, loginText(siteOrigin, "x"+nonce[1:]), url.Values{"nonce": {"x" + nonce[1:]}, "id": {kim.id()}}),
	} {
		b.posts(t, "/login", form, http.StatusForbidden, "")
	}
	right := kim.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}})
	if status, _ := b.post(t, "/login", "cross-site", right); status != http.StatusForbidden {
		t.Errorf("a login from another site: %d", status)
	}
	if status, page := b.enter(t, right); status != http.StatusOK || !strings.Contains(page, "<h1><bdi>") {
		t.Fatalf("logging in: %d %s", status, page)
	}
	again := visitor(t, address, trust)
	again.posts(t, "/login", right, http.StatusForbidden, "")
	site := must(url.Parse(siteOrigin))(t)
	cookies := b.client.Jar.Cookies(site)
	failIf(t, len(cookies) != 0, "cookies everywhere %v", cookies)
	site.Path = b.place + "/"
	cookies = b.client.Jar.Cookies(site)
	failIf(t, len(cookies) != 1 || cookies[0].Name != "__Secure-bcpmesh", "cookies %v", cookies)

	item := func(text string) (path, page string) {
		t.Helper()
		run("publish", "main", "digest", `{"summary":"`+text+`"}`)
		path = first(t, itemLink, b.sees(t, "/approvals", "You decide as kim", "summary"))
		return path, b.sees(t, path, "untrusted content from a tainted agent (mail)")
	}
	path, page := item("Two invoices.")
	form, approve := url.Values{"sha256": {first(t, itemDigest, page)}}, decision(t, page, "approve", "")
	for _, c := range map[string]struct {
		form url.Values
		says string
	}{
		"nothing signed":      {form, "Not signed"},
		"another passkey":     {other.sign(t, approve, form), "Not taken"},
		"on another page":     {elsewhere.sign(t, approve, form), "Not taken"},
		"signed to reject it": {kim.sign(t, decision(t, page, "reject", "No."), form), "Not taken"},
		"signed to log in":    {kim.sign(t, loginText(siteOrigin, nonce), form), "Not taken"},
		"another item":        {kim.sign(t, regexp.MustCompile(`item i[^\n]*`).ReplaceAllString(approve, "item i99"), form), "Not taken"},
		"another end":         {kim.sign(t, regexp.MustCompile(`expires [0-9]+`).ReplaceAllString(approve, "expires "+strconv.FormatInt(time.Now().Unix(), 10)), form), "Not taken"},
	} {
		b.posts(t, path+"/approve", c.form, http.StatusForbidden, c.says)
	}
	inbox := run("inbox")
	stopIf(t, inbox != "", "delivered before a decision: %s", inbox)
	b.posts(t, path+"/approve", kim.sign(t, approve, form), http.StatusOK, "it goes to main")
	if status, page := b.post(t, path+"/approve", "same-origin", kim.sign(t, approve, form)); status == http.StatusOK {
		t.Errorf("approving twice: %s", page)
	}

	path, page = item("Nothing of note.")
	form = url.Values{"sha256": {first(t, itemDigest, page)}, "reason": {"It says nothing."}}
	b.posts(t, path+"/reject", kim.sign(t, decision(t, page, "reject", "Another reason."), form), http.StatusForbidden, "")
	b.posts(t, path+"/reject", kim.sign(t, decision(t, page, "reject", "It says nothing."), form), http.StatusOK, "")

	path, page = item("Pay at once.")
	form = url.Values{"sha256": {first(t, itemDigest, page)}, "response": {"Somebody asks to be paid."}}
	if status, page = b.post(t, path+"/preview", "same-origin", form); status != http.StatusOK {
		t.Fatalf("the preview: %d %s", status, page)
	}
	form.Set("edit", first(t, editDigest, page))
	b.posts(t, path+"/edit", kim.sign(t, decision(t, page, "edit", ""), form), http.StatusOK, "Edited")

	replayed := ""
	for deadline := time.Now().Add(clustertest.Patience); strings.Count(replayed, `"passkey":"`+hex.EncodeToString(hashOf(kim))) < 3; time.Sleep(50 * time.Millisecond) {
		if replayed = run("audit", "replay", "--kind", "approval", "--json"); time.Now().After(deadline) {
			t.Fatalf("the audit has %s", replayed)
		}
	}
	failIf(t, strings.Contains(replayed, `"unsealed":true`), "a passkey's decision is unsealed: %s", replayed)

	run("creds", "revoke", "kim", "--all")
	b.sees(t, "/approvals", "Log in with your passkey")
	if status, page := b.logIn(t, kim); status != http.StatusBadGateway || !strings.Contains(page, "no longer accepts your credentials") {
		t.Errorf("who is revoked logs in: %d %s", status, page)
	}
}

func hashOf(f finger) []byte { hash := f.Hash(); return hash[:] }

// Pages for other machines are not served where somebody on the way could read or change
// them, nor under a name for which no passkey can be.
//
// covers P7.5
func TestSiteIsRefused(t *testing.T) {
	t.Parallel()
	dir := heldMesh(t)
	cert, key, _ := certificateOf(t, siteHost)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitFailed, "there is no TLS", []string{"--listen", "0.0.0.0:0", "--origin", siteOrigin}},
		{cli.ExitFailed, "can be reached from other machines", []string{"--listen", "0.0.0.0:0"}},
		{cli.ExitUsage, "--origin: expected", []string{"--listen", "localhost:0", "--origin", "https://192.0.2.1"}},
		{cli.ExitUsage, "--origin: expected", []string{"--listen", "localhost:0", "--origin", "http://" + siteHost}},
		{cli.ExitUsage, "need --origin", []string{"--tls-cert", cert, "--tls-key", key}},
		{cli.ExitUsage, "must be given together", []string{"--origin", siteOrigin, "--tls-cert", cert}},
		{cli.ExitUsage, "--state", []string{"--origin", siteOrigin, "--creds", "x.creds"}},
		{cli.ExitUsage, "everybody decides as themselves", []string{"--origin", siteOrigin, "--as", "kim"}},
		{cli.ExitFailed, "--tls-cert", []string{"--origin", siteOrigin, "--tls-cert", key, "--tls-key", key}},
	} {
		got := execute(t, "", append([]string{"web", "--dir", dir}, c.args...)...)
		failIf(t, got.code != c.code || !strings.Contains(got.stderr, c.says), "%v: %+v", c.args, got)
	}
	got := execute(t, "", "creds", "invite", "kim", "--dir", dir, "--role", "approver", "--web", "http://"+siteHost)
	failIf(t, got.code != cli.ExitUsage || !strings.Contains(got.stderr, "--web: expected"), "an invitation to nowhere: %+v", got)
}
