package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

const (
	tokenLife   = 5 * time.Minute
	sessionLife = 12 * time.Hour
	sessionIdle = time.Hour
	maxSessions = 64
	minToken    = 26 // characters of a token: 128 bits and more
)

// logins manages logins: one unused token, and sessions. Its methods may be called
// concurrently. The zero value admits nobody.
type logins struct {
	now      func() time.Time
	announce func(token string) // shows a token to the person who may log in

	mu       sync.Mutex
	token    string
	until    time.Time
	sessions map[string]*session
	nonces   nonces
}

type session struct {
	// place is the first part of the paths of its pages, and of its cookie. A browser
	// sends a cookie to every server on a host, at any port: this one only to a server
	// that it asks for this path, which nobody else knows.
	place      string
	ends, idle time.Time
	word       string  // frames hostile text: no agent knows it
	person     *Person // who logged in with a passkey; nil with a code
}

// renew announces a token unless there is a valid one.
func (d *logins) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token == "" || !d.now().Before(d.until) {
		d.replace()
	}
}

func (d *logins) replace() {
	d.token, d.until = rand.Text(), d.now().Add(tokenLife)
	d.announce(d.token)
}

// enter exchanges a token for a session, once.
func (d *logins) enter(token string) (id, place string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.token) < minToken || !d.now().Before(d.until) || subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) != 1 {
		return "", "", false
	}
	if id, place, ok = d.open(nil); ok {
		d.replace()
	}
	return id, place, ok
}

// open begins a session, unless there are too many.
func (d *logins) open(person *Person) (id, place string, ok bool) {
	now := d.now()
	for id, s := range d.sessions {
		if !s.isValid(now) {
			delete(d.sessions, id)
		}
	}
	if len(d.sessions) >= maxSessions {
		return "", "", false
	}
	id, place = rand.Text()+rand.Text(), rand.Text()
	if d.sessions == nil {
		d.sessions = map[string]*session{}
	}
	d.sessions[id] = &session{place, now.Add(sessionLife), now.Add(sessionIdle), frameWords(), person}
	return id, place, true
}

// root is the path under which a session's pages are; without a session there is none.
func (s session) root() string {
	if s.place == "" {
		return ""
	}
	return "/" + s.place
}

func (s *session) isValid(now time.Time) bool {
	return now.Before(s.ends) && now.Before(s.idle) && (s.person == nil || !s.person.Over())
}

// knows reports whether a session is good in a place, and keeps it from going idle.
func (d *logins) knows(id, place string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, now := d.sessions[id], d.now()
	if s == nil || !s.isValid(now) {
		delete(d.sessions, id)
		return false
	}
	if subtle.ConstantTimeCompare([]byte(place), []byte(s.place)) != 1 {
		return false
	}
	s.idle = now.Add(sessionIdle)
	return true
}

// isValid reports whether a session is good, and lets it go idle.
func (d *logins) isValid(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[id]
	return s != nil && s.isValid(d.now())
}

func (d *logins) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, id)
}

const loginPath = "/login"

// login is the page for a code. The code in the address is filled in but not yet used:
// programs that prefetch links do not use it up.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	s.logins.renew()
	showLogin(w, http.StatusOK, r.URL.Query().Get("code"), "")
}

func showLogin(w http.ResponseWriter, status int, code, fault string) {
	if len(code) > 2*minToken {
		code = ""
	}
	outside(w, status, "login", "Log in", fault, code)
}

func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	id, place, ok := s.logins.enter(r.PostFormValue("token"))
	if !ok {
		s.logins.renew()
		showLogin(w, http.StatusForbidden, "", "That code is not valid. It works once, for five minutes; the newest is on the terminal of bcpmesh.")
		return
	}
	s.admit(w, r, id, place)
}

// admit gives a browser its session.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, id, place string) {
	http.SetCookie(w, s.sessionCookie(id, place, 0))
	to := s.home()
	if id, err := bcp.ParseItemID(r.PostFormValue("item")); err == nil {
		to = itemPath(id)
	}
	http.Redirect(w, r, "/"+place+to, http.StatusSeeOther)
}

func (s *Server) sessionCookie(id, place string, age int) *http.Cookie {
	return &http.Cookie{Name: s.cookie, Value: id, Path: "/" + place + "/", MaxAge: age, Secure: s.secure(), HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.sessionCookie("", s.visit(r).place, -1))
	if c, err := r.Cookie(s.cookie); err == nil {
		s.logins.leave(c.Value)
		s.connected.closeUnneeded(s.logins.has)
	}
	toLogin(w, r)
}

// gate requires a session for all pages under its place.
func (s *Server) gate(inner http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		place := r.PathValue("place")
		if c, err := r.Cookie(s.cookie); err != nil || !s.logins.knows(c.Value, place) {
			toLogin(w, r)
			return
		}
		http.StripPrefix("/"+place, inner).ServeHTTP(w, r)
	}
}

func toLogin(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

// maxRewords is how often other words are chosen; a text cannot have guessed as many.
const maxRewords = 32

// framing returns words that do not occur in frames: those of the request's session,
// which are replaced if they do. One guess in a thousand would be right.
func (s *Server) framing(r *http.Request, frames []tell.Frame) (word string) {
	s.ofSession(r, func(of *session) {
		for range maxRewords {
			if !says(frames, of.word) {
				break
			}
			of.word = frameWords()
		}
		word = of.word
	})
	return word
}

// says reports whether the content of frames has some words, ignoring case and spaces.
func says(frames []tell.Frame, words string) bool {
	for _, f := range frames {
		for _, part := range f.Parts {
			if strings.Contains(strings.Join(strings.Fields(strings.ToLower(part.Asked+" "+part.Text)), " "), words) {
				return true
			}
		}
	}
	return false
}

// visit returns the session of a request, zero if it has none.
func (s *Server) visit(r *http.Request) (visit session) {
	s.ofSession(r, func(of *session) { visit = *of })
	return visit
}

// ofSession gives do the session of a request, if it has one.
func (s *Server) ofSession(r *http.Request, do func(*session)) {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return
	}
	s.logins.mu.Lock()
	defer s.logins.mu.Unlock()
	if of := s.logins.sessions[c.Value]; of != nil {
		do(of)
	}
}

// The words that label frames: two of them, chosen for each session.
const (
	frameColours = "amber azure black brown copper coral cream crimson emerald gold green grey indigo ivory jade lemon lilac lime mint navy ochre olive orange pearl pink plum purple red ruby silver violet white"
	frameThings  = "anchor apple arrow badger beacon bell birch bridge candle castle cedar clover comet crane dolphin falcon ferry fox garden harbor heron island kettle lantern maple meadow otter owl pebble raven river tulip"
)

func frameWords() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return pick(frameColours, b[0]) + " " + pick(frameThings, b[1])
}

func pick(words string, n byte) string {
	list := strings.Fields(words)
	return list[int(n)%len(list)]
}
