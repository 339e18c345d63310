package jetstream_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var (
	noon    = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	channel = bcp.ChannelKey{Controller: "main", Reader: "mailer"}
)

// spoken is a decision about a message, as the journal would have it.
func spoken(t *testing.T, keys *jetstream.SealingKeys, key bcp.ChannelKey, at time.Time) []byte {
	t.Helper()
	raw := []byte("raw " + at.String())
	d := bcp.Decision{Seq: 1, Time: at.UnixNano(), Controller: key.Controller, Reader: key.Reader,
		Private: bcp.Private{Salt: [16]byte{1}, Payload: []byte("said"), RawBytes: len(raw)}}
	noError(t, keys.Seal(within(t), &d, raw))
	return must(bcp.EncodeDecision(&d))(t)
}

// opens says what of it has to open: the word of the decision, and that of its message unless that does not matter.
func opens(t *testing.T, keys *jetstream.SealingKeys, record []byte, said, raw string) {
	t.Helper()
	word := func(err error, ok bool) string {
		switch {
		case errors.Is(err, jetstream.ErrErased):
			return "erased"
		case errors.Is(err, jetstream.ErrKeyLost):
			return "lost"
		case err != nil:
			t.Fatal(err)
		case ok:
			return "open"
		}
		return "erased"
	}
	d, err := keys.Decode(within(t), record)
	is := word(err, string(d.Payload) == "said" && !d.Erased)
	message, err := keys.OpenRaw(within(t), &d)
	if rawIs := word(err, bytes.HasPrefix(message, []byte("raw "))); is != said || raw != "" && rawIs != raw {
		t.Errorf("decision of %s: %s and %s, want %s and %s", d.At(), is, rawIs, said, raw)
	}
}

// A key is made once for a channel and a day, and whoever comes later takes it.
//
// covers P4.5, P11.5
func TestSealingKeys(t *testing.T) {
	t.Parallel()
	js := streams(t)
	keys := jetstream.NewSealingKeys(js)
	other := bcp.ChannelKey{Controller: "main", Reader: "other"}
	var records [][]byte
	for _, key := range []bcp.ChannelKey{channel, other, {}} {
		midnight := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{midnight.Add(-1), midnight, midnight.Add(24*time.Hour - 1)} {
			records = append(records, spoken(t, keys, key, at), spoken(t, jetstream.NewSealingKeys(js), key, at))
		}
	}
	made := meshtest.ReadStream(t, js, jetstream.KeyStream)
	secrets := map[string]bool{}
	for _, m := range made {
		secrets[string(m.Data)] = true
	}
	if want := 1 + 3*2*2; len(made) != want || len(secrets) != want { // the first is the makers'
		t.Errorf("%d keys, %d different ones", len(made), len(secrets))
	}
	for _, record := range records {
		opens(t, jetstream.NewSealingKeys(js), record, "open", "open")
	}
	// A decision that says nothing needs no key.
	silent := bcp.Decision{Seq: 1, Time: noon.UnixNano(), Controller: "nobody", Reader: "nobody"}
	if err := keys.Seal(within(t), &silent, nil); err != nil || silent.Sealed != nil || len(meshtest.ReadStream(t, js, jetstream.KeyStream)) != len(made) {
		t.Errorf("%+v, %v", silent, err)
	}
}

// Where the store does not sync by itself, keys are on the disk before what is sealed
// under them is stored, also those that a process before has made: one sync for all
// that are new, and again until it works.
//
// covers P4.5, P11.5
func TestKeysAreSynced(t *testing.T) {
	t.Parallel()
	js := streams(t)
	broken := errors.New("broken")
	var synced int
	var failing error
	keys := func() *jetstream.SealingKeys {
		k := jetstream.NewSealingKeys(js)
		k.SyncWith(func() error { synced++; return failing })
		return k
	}
	sync := func(k *jetstream.SealingKeys, want int, fails error) {
		t.Helper()
		synced = 0
		err := k.Sync()
		failIf(t, synced != want || !errors.Is(err, fails), "synced %d times, want %d: %v", synced, want, err)
	}
	first := keys()
	sync(first, 1, nil)
	sync(first, 0, nil)
	spoken(t, first, channel, noon) // two keys
	sync(first, 1, nil)
	spoken(t, first, channel, noon)
	sync(first, 0, nil)
	next := keys()
	spoken(t, next, channel, noon)
	failing = broken
	sync(next, 1, broken)
	failing = nil
	sync(next, 1, nil)
	sync(next, 0, nil)
}

// What is destroyed is told apart from what is lost, and nothing else is touched.
//
// covers P11.4, P11.5
func TestDestroyedKeys(t *testing.T) {
	t.Parallel()
	js := streams(t)
	keys := jetstream.NewSealingKeys(js)
	old, recent := spoken(t, keys, channel, noon), spoken(t, keys, channel, noon.Add(24*time.Hour))
	foreign := spoken(t, keys, bcp.ChannelKey{}, noon)
	before := meshtest.ReadKeys(t, js)
	end := time.Date(2026, 3, 21, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		before    time.Time
		destroyed int
		said      string
	}{{end.Add(-1), 1, "open"}, {end, 1, "erased"}, {end, 0, "erased"}} { // the first is the makers'
		n, err := keys.Destroy(within(t), channel, subjects.SealedPayload, c.before)
		failIf(t, err != nil || n != c.destroyed, "before %s: %d, %v", c.before, n, err)
		for _, k := range []*jetstream.SealingKeys{keys, jetstream.NewSealingKeys(js)} {
			opens(t, k, old, c.said, "open")
		}
	}
	for _, record := range [][]byte{recent, foreign} {
		opens(t, keys, record, "open", "open")
	}
	// A key that is destroyed seals no more.
	d := bcp.Decision{Seq: 2, Time: noon.UnixNano(), Controller: "main", Reader: "mailer", Private: bcp.Private{Salt: [16]byte{1}, Payload: []byte("x")}}
	err := keys.Seal(within(t), &d, nil)
	failIf(t, !errors.Is(err, jetstream.ErrErased) || d.Sealed != nil, "sealed: %v", err)
	// Lost: not there, or another one, or none at all.
	stream := must(js.Stream(t.Context(), jetstream.KeyStream))(t)
	subject := subjects.Key("main", "mailer", subjects.SealedPayload, "2026-03-21")
	for _, put := range [][]byte{nil, make([]byte, 32), make([]byte, 31), make([]byte, 33), []byte("x")} {
		msg, err := stream.GetLastMsgForSubject(t.Context(), subject)
		if err == nil {
			err = stream.DeleteMsg(t.Context(), msg.Sequence)
		}
		if put != nil && (err == nil || errors.Is(err, natsjs.ErrMsgNotFound)) {
			_, err = js.Publish(t.Context(), subject, put)
		}
		noError(t, err)
		opens(t, jetstream.NewSealingKeys(js), recent, "lost", "")
	}
	_, err = keys.Destroy(within(t), bcp.ChannelKey{Controller: "*", Reader: "*"}, subjects.SealedPayload, noon.Add(1e6*time.Hour))
	failIf(t, !errors.Is(err, subjects.ErrSubject), "all at once: %v", err)
	failIf(t, len(before) != 7, "%d keys", len(before))
}

// A crash between the tombstone and the end of the key leaves one that counts as
// destroyed, and that the next call overwrites.
//
// covers P11.5, A-CRASH
func TestHalfDestroyedKey(t *testing.T) {
	t.Parallel()
	js := streams(t)
	record := spoken(t, jetstream.NewSealingKeys(js), channel, noon)
	subject := subjects.Key("main", "mailer", subjects.SealedPayload, "2026-03-20")
	must(js.Publish(t.Context(), subject, []byte("destroyed")))(t)
	keys := jetstream.NewSealingKeys(js)
	opens(t, keys, record, "erased", "")
	n, err := keys.Destroy(within(t), channel, subjects.SealedPayload, noon.Add(48*time.Hour))
	failIf(t, err != nil || n != 2, "%d, %v", n, err)
	for _, m := range meshtest.ReadStream(t, js, jetstream.KeyStream) {
		failIf(t, m.Subject == subject && string(m.Data) != "destroyed", "%s is there", m.Subject)
	}
}

// Raw messages can be opened for the retention after the end of their day, and not a
// nanosecond longer once somebody looks; what was made of them stays. Their keys open
// nothing from that moment on, also before they are overwritten, and also for whoever has
// read them before; afterwards no byte of them is left.
//
// covers P11.4
func TestExpireRaw(t *testing.T) {
	t.Parallel()
	js := streams(t)
	keys, other := jetstream.NewSealingKeys(js), jetstream.NewSealingKeys(js)
	record, next := spoken(t, keys, channel, noon), spoken(t, keys, bcp.ChannelKey{}, noon.Add(24*time.Hour))
	made := meshtest.ReadKeys(t, js)
	const retention = 36 * time.Hour
	over := time.Date(2026, 3, 21, 0, 0, 0, 0, time.UTC).Add(retention)
	for _, c := range []struct {
		at        time.Time
		expired   int
		raw, next string
	}{{over.Add(-1), 0, "open", "open"}, {over, 1, "erased", "open"}, {over.Add(24*time.Hour - 1), 0, "erased", "open"}, {over.Add(24 * time.Hour), 1, "erased", "erased"},
		{over, 0, "erased", "erased"}} { // the clock goes back
		look := func(when string) {
			t.Helper()
			for _, k := range []*jetstream.SealingKeys{keys, jetstream.NewSealingKeys(js)} {
				for _, r := range []struct {
					record []byte
					raw    string
				}{{record, c.raw}, {next, c.next}} {
					opens(t, k, r.record, "open", r.raw)
				}
			}
		}
		noError(t, keys.ExpireRaw(within(t), c.at, retention))
		look("before the keys are overwritten")
		for _, expired := range []int{c.expired, 0} { // by another gateway
			n, err := other.OverwriteExpired(within(t))
			failIf(t, err != nil || n != expired, "at %s: %d keys overwritten, %v", c.at, n, err)
		}
		look("after it")
	}
	left := meshtest.ReadStream(t, js, jetstream.KeyStream)
	if len(left) != 4 { // the makers', two for what was said, and the expiry
		t.Errorf("%d messages are left", len(left))
	}
	for _, m := range left {
		s, err := subjects.Parse(m.Subject)
		failIf(t, err != nil || s.Sealed == subjects.SealedRaw && bytes.Equal(m.Data, made[m.Subject]), "%s is left", m.Subject)
	}
	given, err := keys.Give(within(t), subjects.Expiry(subjects.SealedRaw))
	failIf(t, !errors.Is(err, subjects.ErrSubject), "the expiry is given out as a key: %v, %v", given, err)
	// Lost is what has not expired and is not there.
	third := spoken(t, keys, channel, noon.Add(72*time.Hour))
	stream, err := js.Stream(t.Context(), jetstream.KeyStream)
	if err == nil {
		err = stream.Purge(t.Context(), natsjs.WithPurgeSubject(subjects.Key("main", "mailer", subjects.SealedRaw, "2026-03-23")))
	}
	noError(t, err)
	opens(t, jetstream.NewSealingKeys(js), third, "open", "lost")
}

// A backup knows what has expired: of such a day nothing is lost.
//
// covers P11.4, P11.5
func TestExpiryIsInABackup(t *testing.T) {
	t.Parallel()
	js := streams(t)
	keys := jetstream.NewSealingKeys(js)
	record, next := spoken(t, keys, channel, noon), spoken(t, keys, channel, noon.Add(24*time.Hour))
	noError(t, keys.ExpireRaw(within(t), noon.Add(36*time.Hour), 24*time.Hour))
	var stored []jetstream.StoredKey
	for subject, key := range meshtest.ReadKeys(t, js) {
		if s, err := subjects.Parse(subject); err != nil || s.Sealed == subjects.SealedRaw && s.Day == "2026-03-20" {
			continue // as if it had been overwritten already
		}
		stored = append(stored, jetstream.StoredKey{Subject: subject, Key: key})
	}
	there := streams(t)
	stream, err := there.Stream(t.Context(), jetstream.KeyStream)
	if err == nil {
		err = errors.Join(stream.Purge(t.Context()), jetstream.RestoreKeys(within(t), there, stored), jetstream.RestoreKeys(within(t), there, stored))
	}
	noError(t, err)
	k := jetstream.NewSealingKeys(there)
	opens(t, k, record, "open", "erased")
	opens(t, k, next, "open", "open")
}
