package gateway

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Marks let agents and people tell whether the journal was rolled back. A file lists who has
// shown it, until the operator accepts it. Meanwhile their channels are closed, also after a
// restart; if a person has shown it, all are. Its methods may be used concurrently.
type Marks struct {
	marker *marker
	file   string

	mu    sync.Mutex
	known setBack
}

// setBack is what the file says.
type setBack struct {
	// Shown are those who have seen more than the journal has.
	Shown []shown `json:"shown,omitempty"`
	// Accepted is when the operator last accepted it, or when the newest mark of Shown
	// was given, if that is later: marks up to then are nothing new.
	Accepted time.Time `json:"accepted,omitzero"`
	// Witnessed are the sizes of the journal, by the witness that has seen it, that the
	// operator accepted, too.
	Witnessed map[string]int64 `json:"witnessed,omitempty"`
}

type shown struct {
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"`
	Seen  time.Time     `json:"seen"` // when its mark was given
}

// OpenMarks reads a file; a missing file is empty. The secret, of 32 bytes, is as old as the
// mesh: a gateway with an older state must be able to read the marks of a later one.
func OpenMarks(file string, secret []byte) (*Marks, error) {
	sealer, err := newMarker(secret)
	if err != nil {
		return nil, err
	}
	s := &Marks{marker: sealer, file: file}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &s.known)
	}
	if err != nil {
		return nil, fmt.Errorf("reading who has seen more than the journal has: %w", err)
	}
	return s, nil
}

// now is what is known: it is replaced, and grows at its end alone.
func (s *Marks) now() setBack {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// Pending reports whether something is closed.
func (s *Marks) Pending() bool { return len(s.now().Shown) > 0 }

// Witnessed returns up to which size the operator accepted that a witness has seen more.
func (s *Marks) Witnessed(witness string) int64 { return s.now().Witnessed[witness] }

// Accept opens what is closed, and accepts what witnesses have seen. Call it once the
// acceptance is recorded.
func (s *Marks) Accept(now time.Time, witnessed map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := setBack{Accepted: now, Witnessed: map[string]int64{}}
	for _, one := range s.known.Shown { // the clock may have been set back, too
		if one.Seen.After(next.Accepted) {
			next.Accepted = one.Seen
		}
	}
	maps.Copy(next.Witnessed, s.known.Witnessed)
	for witness, size := range witnessed {
		next.Witnessed[witness] = max(size, next.Witnessed[witness])
	}
	if err := s.write(next); err != nil {
		return fmt.Errorf("accept that the journal was set back: %w", err)
	}
	s.known = next
	return nil
}

func (s *Marks) write(next setBack) error {
	content, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return disk.Replace(s.file, append(content, '\n'), 0o600)
}

// add closes the channels of an agent, or all if a person has shown it. After an error
// they are closed until the gateway stops. It returns false if this is already known.
func (s *Marks) add(who agentRole, seen time.Time) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.shownBy(who) {
		return false, nil
	}
	s.known.Shown = append(s.known.Shown, shown{who.Agent, who.Role, seen})
	return true, s.write(s.known)
}

func (b setBack) shownBy(who agentRole) bool {
	return slices.ContainsFunc(b.Shown, func(one shown) bool { return one.Agent == who.Agent && one.Role == who.Role })
}

// closed reports whether a channel is closed: one of its agents in its role there, the
// keeper of one, or a person has shown that the journal was rolled back.
func (s *Marks) closed(key bcp.ChannelKey) bool {
	return slices.ContainsFunc(s.now().Shown, func(one shown) bool {
		switch one.Role {
		case bcp.RoleController:
			return one.Agent == key.Controller
		case bcp.RoleReader:
			return one.Agent == key.Reader
		case bcp.RoleKeeper:
			return one.Agent == key.Controller || one.Agent == key.Reader
		default:
			return true
		}
	})
}

// markPause is the minimum time between two marks for one party, except in releases to a
// Controller: each of those has one.
const markPause = time.Second

// telling is the state of marks of one agent or person in one role in this run.
type telling struct {
	// heard says that it has shown its mark, or that it has none. Until then it is given
	// no mark, which would replace the one that it must show.
	heard bool
	given time.Time // when it got a mark last
	// newest is the sequence of the newest record that it has shown and the journal has:
	// older ones are not looked up.
	newest  uint64
	strange bool // it has shown something that is not a mark
}

// readMark checks a message's mark before the message is decided.
func (g *Gateway) readMark(ctx context.Context, in *input) {
	if m := in.message; g.config.Marks != nil && m != nil && m.shows {
		g.guard("a mark", func() { g.hearMark(ctx, m) })
	}
}

func (g *Gateway) hearMark(ctx context.Context, said *message) {
	who := g.sender(said)
	t := g.tellings[who]
	if t == nil {
		t = &telling{}
		g.tellings[who] = t
	}
	if said.mark == "" {
		t.heard = true
		return
	}
	m, own, err := g.config.Marks.marker.open(said.mark, who)
	switch {
	case own:
		t.heard = true
	case err != nil:
		if t.heard = true; !t.strange {
			t.strange = true
			g.log.Warn("a mark is not of this mesh, or of another key of it", "agent", who.Agent, "role", who.Role)
			g.raiseAlert(bcp.AlertMarkStrange, who)
		}
	case m.Sequence <= t.newest:
		t.heard = true
	default:
		g.compare(ctx, who, t, m)
	}
}

// compare checks that the journal has the record that an agent has seen.
func (g *Gateway) compare(ctx context.Context, who agentRole, t *telling, m mark) {
	back := g.config.Marks
	switch err := g.journal.Holds(ctx, m.Position); {
	case err == nil:
		t.heard, t.newest = true, m.Sequence
	case !errors.Is(err, jetstream.ErrPosition):
		g.log.Warn("a mark cannot be compared with the journal", "error", err) // the next message shows it again
	case !m.at.After(back.now().Accepted):
		t.heard, t.newest = true, m.Sequence
	default:
		t.newest = m.Sequence
		added, err := back.add(who, m.at)
		if err != nil {
			g.log.Error("that the journal was set back is forgotten when the gateway ends", "error", err)
		}
		if added {
			g.log.Error("the journal was set back: somebody has seen more of it; what this closes waits for up --accept-rollback",
				"agent", who.Agent, "role", who.Role, "seen", m.at.UTC().Format(time.RFC3339))
			g.raiseAlert(bcp.AlertRollbackSeen, who)
		}
	}
}

// raiseAlert has an alert about somebody recorded with the next batch.
func (g *Gateway) raiseAlert(kind bcp.AlertKind, who agentRole) {
	g.tellMistake(report{made: func(m bcp.Moment) bcp.Decision {
		d := g.state.DecideAlert(m, kind)
		d.Agent, d.Role = who.Agent, who.Role
		return d
	}})
}

// markFor returns the mark for a message, or nothing. delivers says that it releases
// something to a Controller.
func (g *Gateway) markFor(who agentRole, delivers bool) nats.Header {
	if g.config.Marks == nil || !g.sound || g.failed != nil {
		return nil
	}
	t := g.tellings[who]
	if t == nil || !t.heard || g.config.Marks.now().shownBy(who) {
		return nil
	}
	now := g.clock()
	if !delivers && now.Sub(t.given).Abs() < markPause {
		return nil
	}
	t.given = now
	m := mark{jetstream.Position{Sequence: g.journal.Last(), Head: g.state.Head()}, now}
	return nats.Header{bcp.MarkHeader: {g.config.Marks.marker.seal(m, who)}}
}

// mark is the newest record of the journal when an agent was sent something, and the time.
// Agents keep theirs and show it when they connect, so that a rollback of the journal is
// detected.
type mark struct {
	jetstream.Position
	at time.Time
}

const (
	runSize   = 16
	plainSize = 8 + 8 + sha256.Size
	nonceSize = 12
	tagSize   = 16
	sealSize  = runSize + nonceSize + plainSize + tagSize
)

// marker seals marks. For agents a mark is random bytes: it tells them nothing of what
// others do, they cannot make one, and nobody can show another's. The marks of a run
// are sealed with a key of that run, for at most 2^32 messages.
type marker struct {
	secret []byte
	run    [runSize]byte
	sealer cipher.AEAD
}

var (
	errMark   = errors.New("no mark of this mesh")
	errSecret = errors.New("marks need a secret of 32 bytes")

	markText = base64.RawURLEncoding.Strict()
)

func newMarker(secret []byte) (*marker, error) {
	if len(secret) != sha256.Size {
		return nil, errSecret
	}
	m := &marker{secret: secret}
	_, _ = rand.Read(m.run[:])
	var err error
	m.sealer, err = m.newSealer(m.run[:])
	return m, err
}

func (k *marker) newSealer(run []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.secret, run, "bcpmesh mark", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns the text of a mark for an agent.
func (k *marker) seal(m mark, who agentRole) string {
	var plain [plainSize]byte
	binary.BigEndian.PutUint64(plain[:], m.Sequence)
	binary.BigEndian.PutUint64(plain[8:], uint64(m.at.UnixMilli()))
	copy(plain[16:], m.Head[:])
	sealed := make([]byte, runSize, sealSize)
	copy(sealed, k.run[:])
	return markText.EncodeToString(k.sealer.Seal(sealed, nil, plain[:], owner(who)))
}

// open reads the text of a mark that an agent shows. own says that this run made it, or
// that it claims so; then it is not checked, since it can say nothing new.
func (k *marker) open(text string, who agentRole) (m mark, own bool, err error) {
	if len(text) != markText.EncodedLen(sealSize) {
		return m, false, errMark
	}
	sealed, err := markText.DecodeString(text)
	if err != nil || len(sealed) != sealSize { // line breaks in it are not decoded
		return m, false, errMark
	}
	run := sealed[:runSize]
	if bytes.Equal(run, k.run[:]) {
		return m, true, nil
	}
	sealer, err := k.newSealer(run)
	if err != nil {
		return m, false, err
	}
	plain, err := sealer.Open(nil, nil, sealed[runSize:], owner(who))
	if err != nil {
		return m, false, errMark
	}
	m.Sequence, m.at = binary.BigEndian.Uint64(plain), time.UnixMilli(int64(binary.BigEndian.Uint64(plain[8:])))
	copy(m.Head[:], plain[16:])
	return m, false, nil
}

// owner returns the party to which a mark is bound.
func owner(who agentRole) []byte { return []byte(who.Role.String() + " " + string(who.Agent)) }
