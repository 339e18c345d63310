package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The content of messages is sealed in the journal, with two keys for each channel
// and day of journal time, in UTC: one for the content that the state needs, one
// for the raw messages. The keys are in their own stream. Destroying a key erases
// what it sealed: its bytes are overwritten, and a tombstone says that this was on
// purpose, or, for a raw message, the day up to which all have expired
// (expiry.go). A key that is neither present nor destroyed is lost, and nothing
// starts without it.

var (
	// ErrErased says that a key was destroyed on purpose.
	ErrErased = errors.New("it was erased: its sealing key is destroyed")
	// ErrKeyLost says that a key is missing that was not destroyed, or that it
	// is not the key that sealed.
	ErrKeyLost = errors.New("a sealing key is lost")
)

const (
	day = 24 * time.Hour
	// maxKeys bounds the keys in memory, half a KiB each: two for each of 131,072
	// channels.
	maxKeys = 256 << 10
	// tombstone replaces a destroyed key.
	tombstone = "destroyed"
)

// sealingKey names one.
type sealingKey struct {
	controller, reader bcp.AgentName
	sealed             subjects.Sealed
	day                int64 // since 1970
}

func newSealingKey(d *bcp.Decision, sealed subjects.Sealed) sealingKey {
	key := sealingKey{sealed: sealed, day: d.Time / int64(day)}
	if channel, ok := d.Channel(); ok {
		key.controller, key.reader = channel.Controller, channel.Reader
	}
	return key
}

func (k sealingKey) subject() string {
	return subjects.Key(k.controller, k.reader, k.sealed, formatDay(k.day))
}

// KeyGiver returns the sealing key that is stored on a subject.
type KeyGiver func(ctx context.Context, subject string) (bcp.GivenKey, error)

// SealingKeys seals decisions and opens them. It may be used concurrently.
type SealingKeys struct {
	js   natsjs.JetStream // nil of keys that only open
	give KeyGiver
	sync func() error // nil if the store syncs by itself

	mu     sync.Mutex
	stream natsjs.Stream                 // nil until it was opened
	known  map[sealingKey]bcp.SealingKey // the zero key is a tombstone
	// expired is the last day with raw messages that are known to have expired.
	expired int64
	// Sync has something to do while more keys were made than synced.
	made, synced uint64
}

// NewSealingKeys returns the keys of a mesh.
func NewSealingKeys(js natsjs.JetStream) *SealingKeys {
	k := GivenSealingKeys(nil)
	k.js, k.give = js, k.Give
	return k
}

// GivenSealingKeys returns keys that given supplies. They open, and can seal only
// if the key exists.
func GivenSealingKeys(given KeyGiver) *SealingKeys {
	return &SealingKeys{give: given, known: make(map[sealingKey]bcp.SealingKey), expired: neverExpired}
}

// Give returns the key on a subject, made by package subjects, for the owner of
// the keys. It may be called concurrently. The error is [subjects.ErrSubject] for
// another subject.
func (k *SealingKeys) Give(ctx context.Context, subject string) (bcp.GivenKey, error) {
	of, err := parseSealingKey(subject)
	if err != nil {
		return bcp.GivenKey{}, fmt.Errorf("giving out a sealing key: %w", subjects.ErrSubject)
	}
	given, err := k.read(ctx, subject)
	if err == nil && of.sealed == subjects.SealedRaw && !given.Destroyed {
		var expired int64
		if expired, _, err = k.readExpiry(ctx); err == nil && of.day <= expired {
			given = bcp.GivenKey{Destroyed: true}
		}
	}
	if err != nil {
		return bcp.GivenKey{}, err
	}
	return given, nil
}

// read returns the entry on the subject of a key.
func (k *SealingKeys) read(ctx context.Context, subject string) (bcp.GivenKey, error) {
	stored, err := k.stored(ctx, subject)
	switch {
	case errors.Is(err, natsjs.ErrMsgNotFound):
		return bcp.GivenKey{}, nil
	case err != nil:
		return bcp.GivenKey{}, err
	case string(stored.Data) == tombstone:
		return bcp.GivenKey{Destroyed: true}, nil
	}
	return bcp.GivenKey{Key: stored.Data}, nil
}

// SyncWith makes Sync write the keys to disk with a function. It is for a store that
// acknowledges before it writes to disk: after a power cut it may have lost its
// newest records, but must not have lost the keys of the others. Call it before
// Seal.
func (k *SealingKeys) SyncWith(sync func() error) { k.sync, k.made = sync, 1 }

// Sync writes the keys made since the last call to disk, and at the first call all
// keys. Call it before sealed records are stored. After an error it retries.
func (k *SealingKeys) Sync() error {
	k.mu.Lock()
	made, done := k.made, k.synced == k.made
	k.mu.Unlock()
	if k.sync == nil || done {
		return nil
	}
	if err := k.sync(); err != nil {
		return fmt.Errorf("%w: writing the sealing keys to the disk: %w", ErrUncertain, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced = max(k.synced, made)
	return nil
}

// Seal seals the content of a decision, and its message, before it is encoded. The
// first call for a channel and day makes their keys, and waits until they are stored as
// safely as the journal's records.
func (k *SealingKeys) Seal(ctx context.Context, d *bcp.Decision, message []byte) error {
	if !d.Says() {
		return nil
	}
	key, err := k.key(ctx, newSealingKey(d, subjects.SealedPayload), true)
	var raw bcp.SealingKey
	if err == nil && len(message) > 0 {
		raw, err = k.key(ctx, newSealingKey(d, subjects.SealedRaw), true)
	}
	if err == nil {
		err = d.Seal(key)
	}
	if err != nil || len(message) == 0 {
		return err
	}
	return d.SealRaw(raw, message)
}

// Decode reads a decision of the journal and opens its content. If that was
// erased, the decision says so. The error is [ErrKeyLost] if no key opens it.
func (k *SealingKeys) Decode(ctx context.Context, record []byte) (bcp.Decision, error) {
	d, err := bcp.DecodeDecision(record)
	if err != nil {
		return d, err
	}
	return d, k.Open(ctx, &d)
}

// Open opens the content of a decision, as Decode does.
func (k *SealingKeys) Open(ctx context.Context, d *bcp.Decision) error {
	if len(d.Sealed) == 0 {
		return nil
	}
	key, err := k.key(ctx, newSealingKey(d, subjects.SealedPayload), false)
	switch {
	case errors.Is(err, ErrErased):
		d.Private = bcp.Private{Erased: true}
		return nil
	case err == nil:
		err = d.Open(key)
	}
	return lost(d, err)
}

// OpenRaw returns the raw message of a decision of the journal, at most its first
// [bcp.MaxRawBytes], or nothing if the decision has no message. The error is
// [ErrErased] if its key was destroyed, because raw_retention has passed or by the
// operator, and [ErrKeyLost] if no key opens it. Only readers of the gateway's
// account have the keys: that is permission to read raw messages.
func (k *SealingKeys) OpenRaw(ctx context.Context, d *bcp.Decision) ([]byte, error) {
	if len(d.SealedRaw) == 0 {
		return nil, nil
	}
	key, err := k.key(ctx, newSealingKey(d, subjects.SealedRaw), false)
	if err != nil {
		return nil, lost(d, err)
	}
	message, err := d.OpenRaw(key)
	return message, lost(d, err)
}

// SealCheckpoint seals what was said in a checkpoint of a state, under the keys of its
// records. What is erased by now it leaves out.
func (k *SealingKeys) SealCheckpoint(ctx context.Context, checkpoint []byte) ([]byte, error) {
	sealed, err := k.eachSaid(ctx, checkpoint, true, func(key bcp.SealingKey, s *bcp.Said) error {
		var salt [16]byte
		_, _ = rand.Read(salt[:])
		return s.Seal(key, salt)
	})
	return sealed, cmp.Or(err, k.Sync())
}

// OpenCheckpoint opens what SealCheckpoint sealed, and leaves out what was erased since.
// The error is [ErrKeyLost] if no key opens the rest.
func (k *SealingKeys) OpenCheckpoint(ctx context.Context, checkpoint []byte) ([]byte, error) {
	return k.eachSaid(ctx, checkpoint, false, func(key bcp.SealingKey, s *bcp.Said) error { return s.Open(key) })
}

func (k *SealingKeys) eachSaid(ctx context.Context, checkpoint []byte, toSeal bool, do func(bcp.SealingKey, *bcp.Said) error) ([]byte, error) {
	parts, rest, err := bcp.CutSaid(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	kept := parts[:0]
	for i := range parts {
		s := &parts[i]
		key, err := k.key(ctx, sealingKey{s.Controller, s.Reader, subjects.SealedPayload, s.Day}, toSeal)
		if errors.Is(err, ErrErased) {
			continue
		}
		if err == nil {
			err = do(key, s)
		}
		if err = otherKey(err); err != nil {
			return nil, fmt.Errorf("what was said on %s in a snapshot: %w", formatDay(s.Day), err)
		}
		kept = append(kept, *s)
	}
	said, err := bcp.AppendSaid(nil, kept)
	return append(said, rest...), err
}

// otherKey says of what a key does not open that its own is lost.
func otherKey(err error) error {
	if errors.Is(err, bcp.ErrSealed) {
		return fmt.Errorf("%w: another one is there", ErrKeyLost)
	}
	return err
}

func lost(d *bcp.Decision, err error) error {
	if err = otherKey(err); err != nil {
		err = fmt.Errorf("decision %d of %s: %w", d.Seq, d.At().Format(time.DateOnly), err)
	}
	return err
}

// key returns a key. If toSeal is set, it is made if missing.
func (k *SealingKeys) key(ctx context.Context, of sealingKey, toSeal bool) (bcp.SealingKey, error) {
	k.mu.Lock()
	key, known := k.known[of]
	if !toSeal && of.sealed == subjects.SealedRaw && of.day <= k.expired {
		key, known = bcp.SealingKey{}, true
	}
	k.mu.Unlock()
	if !known {
		ctx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		var err error
		if toSeal && k.js != nil {
			key, err = k.create(ctx, of) // usually missing, and the caller waits
			k.mu.Lock()
			k.made++ // also after an error, and if it is there: it may not be on disk
			k.mu.Unlock()
		} else {
			key, err = givenKey(k.give(ctx, of.subject()))
		}
		if err != nil {
			return bcp.SealingKey{}, err
		}
		key = k.keepKey(of, key)
	}
	if key.IsZero() {
		return bcp.SealingKey{}, ErrErased
	}
	return key, nil
}

// keepKey keeps a key, unless it was destroyed while it was read.
func (k *SealingKeys) keepKey(of sealingKey, key bcp.SealingKey) bcp.SealingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.known[of]; ok && known.IsZero() {
		return known
	}
	if len(k.known) >= maxKeys {
		for some := range k.known { // most of the needed ones stay, even if more are needed than fit
			if delete(k.known, some); len(k.known) <= maxKeys-maxKeys/8 {
				break
			}
		}
	}
	k.known[of] = key
	return key
}

// destroyed reports whether a key is known to be.
func (k *SealingKeys) destroyed(of sealingKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, known := k.known[of]
	return known && key.IsZero()
}

// givenKey returns a given key, zero if it was destroyed.
func givenKey(given bcp.GivenKey, err error) (bcp.SealingKey, error) {
	switch {
	case err != nil:
		return bcp.SealingKey{}, err
	case given.Destroyed:
		return bcp.SealingKey{}, nil
	case len(given.Key) == 0:
		return bcp.SealingKey{}, fmt.Errorf("%w: no such key", ErrKeyLost)
	}
	return parseKey(given.Key)
}

// keyPatience is the first timeout of a request for a key, doubled for each retry: a
// leader that is gone does not answer.
const keyPatience = 500 * time.Millisecond

// stored returns the message on a subject.
func (k *SealingKeys) stored(ctx context.Context, subject string) (*natsjs.RawStreamMsg, error) {
	for patience := keyPatience; ; patience *= 2 {
		attempt, cancel := context.WithTimeout(ctx, patience)
		stream, err := k.open(attempt)
		var message *natsjs.RawStreamMsg
		if err == nil {
			message, err = stream.GetLastMsgForSubject(attempt, subject)
		}
		cancel()
		if err == nil {
			return message, nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("reading a sealing key: %w", err)
		}
	}
}

// open returns the stream, which is looked up once.
func (k *SealingKeys) open(ctx context.Context) (natsjs.Stream, error) {
	k.mu.Lock()
	stream := k.stream
	k.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	stream, err := k.js.Stream(ctx, KeyStream)
	if err != nil {
		return nil, fmt.Errorf("opening the sealing keys: %w", err)
	}
	k.mu.Lock()
	k.stream = stream
	k.mu.Unlock()
	return stream, nil
}

// list returns how many messages there are on each subject of a pattern, and their stream.
func (k *SealingKeys) list(ctx context.Context, pattern string) (natsjs.Stream, map[string]uint64, error) {
	stream, err := k.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	info, err := stream.Info(ctx, natsjs.WithSubjectFilter(pattern))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the sealing keys: %w", err)
	}
	return stream, info.State.Subjects, nil
}

func parseKey(data []byte) (bcp.SealingKey, error) {
	var secret [32]byte
	if copy(secret[:], data) != len(data) || len(data) != len(secret) {
		return bcp.SealingKey{}, fmt.Errorf("%w: it has %d bytes", ErrKeyLost, len(data))
	}
	return bcp.NewSealingKey(secret)
}

// create makes a key, or returns the existing one.
func (k *SealingKeys) create(ctx context.Context, of sealingKey) (bcp.SealingKey, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it does not fail
	_, err := k.js.PublishMsg(ctx, &nats.Msg{Subject: of.subject(), Data: secret[:]},
		natsjs.WithExpectLastSequencePerSubject(0), natsjs.WithRetryAttempts(0))
	if wrongSequence(err) {
		return givenKey(k.read(ctx, of.subject()))
	}
	if err != nil {
		return bcp.SealingKey{}, fmt.Errorf("%w: making a sealing key: %w", ErrUncertain, err)
	}
	return bcp.NewSealingKey(secret)
}

func wrongSequence(err error) bool {
	var api *natsjs.APIError
	return errors.As(err, &api) && (api.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequenceConstant)
}

// Destroy destroys the keys of a channel, or of the decisions without one, for all
// days that ended by a time, and returns their number. After an error call it
// again: destroyed keys stay so.
func (k *SealingKeys) Destroy(ctx context.Context, channel bcp.ChannelKey, sealed subjects.Sealed, before time.Time) (destroyed int, err error) {
	pattern := subjects.KeysOf(channel.Controller, channel.Reader, sealed)
	if pattern == "" {
		return 0, fmt.Errorf("destroying sealing keys: %w", subjects.ErrSubject)
	}
	expired, _, err := k.readExpiry(ctx)
	if err != nil {
		return 0, err
	}
	stream, stored, err := k.list(ctx, pattern)
	if err != nil {
		return 0, err
	}
	for subject, messages := range stored {
		of, err := parseSealingKey(subject)
		if errors.Is(err, errExpiry) {
			continue
		}
		if err != nil {
			return destroyed, err
		}
		if of.day >= dayNumber(before) || sealed == subjects.SealedRaw && of.day <= expired || messages == 1 && k.destroyed(of) {
			continue
		}
		did, err := k.destroyOne(ctx, stream, subject)
		if err != nil {
			return destroyed, fmt.Errorf("destroying a sealing key: %w", err)
		}
		if did {
			destroyed++
		}
		k.keepKey(of, bcp.SealingKey{})
	}
	return destroyed, nil
}

// Any reports whether a channel, or the decisions without one, ever had a sealing key,
// also if all of them are destroyed.
func (k *SealingKeys) Any(ctx context.Context, channel bcp.ChannelKey) (bool, error) {
	for _, sealed := range []subjects.Sealed{subjects.SealedPayload, subjects.SealedRaw} {
		_, stored, err := k.list(ctx, subjects.KeysOf(channel.Controller, channel.Reader, sealed))
		if err != nil {
			return false, err
		}
		for subject := range stored {
			if _, err := parseSealingKey(subject); !errors.Is(err, errExpiry) {
				return true, nil
			}
		}
	}
	return false, nil
}

// destroyOne writes a tombstone after a key and then overwrites the key. After a
// crash in between, the key counts as destroyed and the next call overwrites it.
func (k *SealingKeys) destroyOne(ctx context.Context, stream natsjs.Stream, subject string) (did bool, err error) {
	last, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return false, err
	}
	if string(last.Data) != tombstone {
		ack, err := k.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(tombstone)}, natsjs.WithExpectLastSequencePerSubject(last.Sequence))
		if err != nil {
			return false, err
		}
		last.Sequence = ack.Sequence
	}
	for {
		first, err := stream.GetMsg(ctx, 1, natsjs.WithGetMsgSubject(subject))
		if err != nil || first.Sequence >= last.Sequence {
			return did, err
		}
		if err := stream.SecureDeleteMsg(ctx, first.Sequence); err != nil {
			return did, err
		}
		did = true
	}
}

// StoredKey is a key, or the tombstone of one, as the stream keeps it.
type StoredKey struct {
	Subject string `json:"subject"`
	Key     []byte `json:"key"`
}

// readKeys returns all keys, sorted by subject.
func readKeys(ctx context.Context, js natsjs.JetStream) (keys []StoredKey, err error) {
	err = AwaitAnswer(ctx, func() error { // the stream may have no leader at the moment
		keys = []StoredKey{}
		stream, stored, err := NewSealingKeys(js).list(ctx, subjects.All(subjects.KindKey))
		for _, subject := range slices.Sorted(maps.Keys(stored)) {
			msg, err := stream.GetLastMsgForSubject(ctx, subject)
			if err != nil {
				return fmt.Errorf("reading the sealing keys: %w", err)
			}
			keys = append(keys, StoredKey{subject, msg.Data})
		}
		return err
	})
	return keys, err
}

func parseKeys(content []byte) (keys []StoredKey, err error) {
	if err := json.Unmarshal(content, &keys); err != nil {
		return nil, fmt.Errorf("%w: its sealing keys: %w", ErrBackup, err)
	}
	for _, key := range keys {
		_, err := parseSealingKey(key.Subject)
		switch {
		case errors.Is(err, errExpiry):
			_, err = parseDate(string(key.Key))
		case err == nil && string(key.Key) != tombstone:
			_, err = parseKey(key.Key)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: its sealing keys", ErrBackup)
		}
	}
	return keys, nil
}

// RestoreKeys writes the keys of a backup into a stream that is new, or has some of
// them from an earlier attempt.
func RestoreKeys(ctx context.Context, js natsjs.JetStream, keys []StoredKey) error {
	stored, err := readKeys(ctx, js)
	if err != nil {
		return err
	}
	there := make(map[string][]byte, len(stored))
	for _, key := range stored {
		there[key.Subject] = key.Key
	}
	var acks []natsjs.PubAckFuture
	for _, key := range keys {
		if bytes.Equal(there[key.Subject], key.Key) {
			continue
		}
		if len(acks) == 0 {
			if err := awaitInterest(ctx, js, key.Subject); err != nil {
				return fmt.Errorf("storing the sealing keys: %w", err)
			}
		}
		ack, err := js.PublishAsync(key.Subject, key.Key, natsjs.WithExpectLastSequencePerSubject(0))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		acks = append(acks, ack)
	}
	return Await(ctx, acks)
}
