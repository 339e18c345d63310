package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	enrolPath = "/enrol"
	// nonceLife is how long the page of the login can be answered.
	nonceLife = 5 * time.Minute
	nonceSize = 8 + 16 // a time, and random bytes
	// joinTime bounds how long somebody waits who enrols.
	joinTime = 15 * time.Second
)

// nonces are what people sign to log in. Unused ones are not stored, so that strangers
// cannot fill the memory.
type nonces struct {
	key  [32]byte
	used map[string]time.Time // and when they expire
}

// nonce returns a new one.
func (d *logins) nonce() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var zero [32]byte
	if d.nonces.key == zero {
		_, _ = rand.Read(d.nonces.key[:]) // it never fails
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(d.now().Unix())) //nolint:gosec // after 1970
	b = append(b, rand.Text()[:16]...)
	return base64.RawURLEncoding.EncodeToString(append(b, d.nonces.sum(b)...))
}

func (n *nonces) sum(b []byte) []byte {
	h := hmac.New(sha256.New, n.key[:])
	h.Write(b)
	return h.Sum(nil)
}

// use reports whether a nonce is one of ours, still good and not used before; from now on
// it is.
func (d *logins) use(nonce string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := base64.RawURLEncoding.DecodeString(nonce)
	// Only the canonical spelling, by which a used nonce is recognised.
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != nonce || len(b) != nonceSize+sha256.Size || !hmac.Equal(b[nonceSize:], d.nonces.sum(b[:nonceSize])) {
		return false
	}
	now := d.now()
	ends := time.Unix(int64(binary.BigEndian.Uint64(b)), 0).Add(nonceLife) //nolint:gosec // ours
	for used, until := range d.nonces.used {
		if !now.Before(until) {
			delete(d.nonces.used, used)
		}
	}
	if _, used := d.nonces.used[nonce]; used || !now.Before(ends) {
		return false
	}
	if d.nonces.used == nil {
		d.nonces.used = map[string]time.Time{}
	}
	d.nonces.used[nonce] = ends
	return true
}

// loginStatement returns what people sign to log in. It is not about an item, so it
// cannot be a decision.
func loginStatement(origin, nonce string) []byte {
	return []byte("bcpmesh login 1\norigin " + origin + "\nnonce " + nonce + "\n")
}

// signed returns the fields that page.js filled in, nil if it did not.
func signed(r *http.Request, p accounts.Passkey) *bcp.Assertion {
	a := &bcp.Assertion{RPID: p.RPID, PublicKey: p.PublicKey,
		AuthenticatorData: r.PostFormValue("authenticator_data"), ClientData: r.PostFormValue("client_data"), Signature: r.PostFormValue("assertion")}
	if a.AuthenticatorData == "" || a.ClientData == "" || a.Signature == "" {
		return nil
	}
	return a
}

// passkeyData is what only the page of the login with a passkey has.
type passkeyData struct{ Nonce, Site, Item string }

// showPasskeyLogin shows the login, which leads to the item that a notice linked to.
func (s *Server) showPasskeyLogin(w http.ResponseWriter, r *http.Request, status int, fault string) {
	item := r.FormValue("item")
	if _, err := bcp.ParseItemID(item); err != nil {
		item = ""
	}
	outside(w, status, "passkey", "Log in", fault, passkeyData{s.logins.nonce(), s.URL(), item})
}

// linked is where a notice links to: the pages of a session have paths that nobody knows.
func (s *Server) linked(w http.ResponseWriter, r *http.Request) {
	to := loginPath
	if id, err := bcp.ParseItemID(r.PathValue("item")); err == nil {
		to += "?item=" + string(id)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// enterByPasskey logs in a person who signed one of our nonces with an enrolled
// passkey, if the mesh accepts the creds bound to it.
func (s *Server) enterByPasskey(w http.ResponseWriter, r *http.Request) {
	nonce := r.PostFormValue("nonce")
	p, known := s.site.People.passkey(r.PostFormValue("id"))
	assertion := signed(r, p)
	hash, err := p.Hash()
	if assertion == nil || !known || err != nil || accounts.VerifyPasskeyAt(s.URL(), hash, assertion, loginStatement(s.URL(), nonce)) != nil || !s.logins.use(nonce) {
		s.showPasskeyLogin(w, r, http.StatusForbidden, "That passkey does not log in here, or the page was older than five minutes. Try again; if it stays so, enrol again with a new invitation.")
		return
	}
	person, err := s.connected.connect(r.Context(), s.site.People.connect, p)
	if err != nil {
		s.showPasskeyLogin(w, r, http.StatusBadGateway, "The mesh cannot be reached, or no longer accepts your credentials. Its operator sees them in bcpmesh creds.")
		return
	}
	s.logins.mu.Lock()
	id, place, ok := s.logins.open(person)
	s.logins.mu.Unlock()
	s.connected.closeUnneeded(s.logins.has)
	if !ok {
		s.showPasskeyLogin(w, r, http.StatusServiceUnavailable, "Too many people are logged in. Try again later.")
		return
	}
	s.admit(w, r, id, place)
}

// has reports whether a person has a session.
func (d *logins) has(person *Person) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, s := range d.sessions {
		if s.person == person && s.isValid(now) {
			return true
		}
	}
	return false
}

// enrol is the page that makes a passkey. The token of an invitation is after the # of
// its address, which no log has.
func (s *Server) enrol(w http.ResponseWriter, r *http.Request) {
	s.showEnrol(w, http.StatusOK, r.URL.Query().Get("as"), "")
}

func (s *Server) showEnrol(w http.ResponseWriter, status int, name, fault string) {
	if _, err := bcp.ParseAgentName(name); err != nil {
		name = ""
	}
	outside(w, status, "enrol", "Make a passkey", fault, name)
}

// enrolledData is what only the page of somebody has who has enrolled: their name, or the file for the operator.
type enrolledData struct {
	Name  bcp.AgentName
	File  string
	Words string
}

// enrolled accepts a passkey made by a browser. With the token of an invitation its
// person joins; without one, as on a cluster, the operator gets a file.
func (s *Server) enrolled(w http.ResponseWriter, r *http.Request) {
	site, _ := accounts.PasskeySite(s.URL())
	p := accounts.Passkey{RPID: site, PublicKey: r.PostFormValue("public_key"), ID: r.PostFormValue("id")}
	hash, err := p.Hash()
	if err != nil || p.ID == "" {
		s.showEnrol(w, http.StatusUnprocessableEntity, "", "Your browser made no passkey that can sign here (ES256, EdDSA or RS256). Try another device.")
		return
	}
	words := accounts.PasskeyWords(hash)
	token := r.PostFormValue("token")
	if token == "" {
		file, err := json.Marshal(p)
		if err != nil {
			s.showEnrol(w, http.StatusUnprocessableEntity, "", "The passkey cannot be written.")
			return
		}
		outside(w, http.StatusOK, "enrolled", "Nearly there", "", enrolledData{File: string(file), Words: words})
		return
	}
	name, err := s.site.People.join(r.Context(), token, p)
	var refused *agents.RefusedError
	switch {
	case errors.Is(err, agents.ErrToken), errors.As(err, &refused):
		s.showEnrol(w, http.StatusForbidden, "", "The mesh does not accept this invitation: it is used, expired or cancelled, or not for an approver. Ask for a new one; if you did not use it, somebody else did: say so.")
		return
	case err != nil:
		s.showEnrol(w, http.StatusBadGateway, "", "The mesh did not answer, or its answer cannot be stored here. Ask for a new invitation; the output of bcpmesh web says why.")
		return
	}
	outside(w, http.StatusOK, "enrolled", "You are enrolled", "", enrolledData{Name: name, Words: words})
}
