package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// The keys of raw messages expire a day at a time, those of all channels together. One
// message in the stream of keys says up to which day they are destroyed: from then on
// nothing can be opened with them. Later their bytes are overwritten and they are
// removed: a missing key of such a day has expired.
//
// So expiry at a start costs one write, independent of the number of channels and the
// age of the mesh.

// neverExpired is before any day of a key.
const neverExpired = math.MinInt64

// ExpireRaw destroys the keys of raw messages of all days that ended a retention ago, to
// the nanosecond: from then on nothing can be opened with them. So a message can be
// opened for at least the retention, and at most a day longer.
// [SealingKeys.OverwriteExpired] then removes the bytes of the keys.
func (k *SealingKeys) ExpireRaw(ctx context.Context, now time.Time, retention time.Duration) error {
	subject := subjects.Expiry(subjects.SealedRaw)
	last := dayNumber(now.Add(-retention)) - 1
	for {
		expired, sequence, err := k.readExpiry(ctx)
		if err != nil || expired >= last {
			return err
		}
		_, err = k.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(formatDay(last))},
			natsjs.WithExpectLastSequencePerSubject(sequence), natsjs.WithRetryAttempts(0))
		switch {
		case wrongSequence(err): // another gateway was quicker
			continue
		case err != nil:
			return fmt.Errorf("expiring sealing keys: %w", err)
		}
		k.noteExpiry(last)
		if stream, err := k.open(ctx); err == nil && sequence > 0 {
			_ = stream.DeleteMsg(ctx, sequence) // only the newest counts
		}
		return nil
	}
}

// OverwriteExpired overwrites and removes expired keys, and returns their number. After
// an error call it again.
func (k *SealingKeys) OverwriteExpired(ctx context.Context) (overwritten int, err error) {
	expired, _, err := k.readExpiry(ctx)
	if err != nil || expired == neverExpired {
		return 0, err
	}
	stream, stored, err := k.list(ctx, subjects.AllKeys(subjects.SealedRaw))
	if err != nil {
		return 0, err
	}
	for subject, messages := range stored {
		of, err := parseSealingKey(subject)
		if errors.Is(err, errExpiry) || err == nil && of.day > expired {
			continue
		}
		for ; err == nil && messages > 0; messages-- {
			var message *natsjs.RawStreamMsg
			if message, err = stream.GetMsg(ctx, 1, natsjs.WithGetMsgSubject(subject)); err != nil {
				break
			}
			if string(message.Data) == tombstone {
				err = stream.DeleteMsg(ctx, message.Sequence)
			} else if err = stream.SecureDeleteMsg(ctx, message.Sequence); err == nil {
				overwritten++
			}
		}
		if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) { // another gateway has removed it
			return overwritten, fmt.Errorf("overwriting a sealing key: %w", err)
		}
	}
	return overwritten, nil
}

// readExpiry returns the last day whose raw messages have expired, and the sequence of
// the message with that day, 0 if there is none.
func (k *SealingKeys) readExpiry(ctx context.Context) (last int64, sequence uint64, err error) {
	message, err := k.stored(ctx, subjects.Expiry(subjects.SealedRaw))
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return neverExpired, 0, nil
	}
	if err == nil {
		last, err = parseDate(string(message.Data))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading which sealing keys have expired: %w", err)
	}
	k.noteExpiry(last)
	return last, message.Sequence, nil
}

func (k *SealingKeys) noteExpiry(last int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expired = max(k.expired, last)
}

// errExpiry says that a subject has the day up to which keys have expired, not a key.
var errExpiry = errors.New("it is no key")

// parseSealingKey reads the subject of a key.
func parseSealingKey(subject string) (sealingKey, error) {
	s, err := subjects.Parse(subject)
	if err == nil && s.Kind != subjects.KindKey {
		err = subjects.ErrSubject
	}
	if err == nil && s.Expiry {
		err = errExpiry
	}
	if err != nil {
		return sealingKey{}, err
	}
	day, err := parseDate(s.Day)
	return sealingKey{s.Controller, s.Reader, s.Sealed, day}, err
}

// dayNumber returns the day of a time since 1970, in UTC.
func dayNumber(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

func formatDay(d int64) string {
	return time.Unix(d*int64(day/time.Second), 0).UTC().Format(time.DateOnly)
}

func parseDate(date string) (int64, error) {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 0, fmt.Errorf("%w: it is of no day", ErrKeyLost)
	}
	return dayNumber(t), nil
}
