package jetstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// On a cluster the base is in a stream, in parts. The record of the truncation
// identifies it, as it does a file.

const (
	// partBytes is the size of a part, which is one message.
	partBytes = 256 << 10
	// partHeader is the number of a part, from 0.
	partHeader = "Bcp-Part"
)

// StoreBase stores the base of a journal that begins after a sequence, keeps other bases,
// and reads it back.
func StoreBase(ctx context.Context, js natsjs.JetStream, replicas int, sequence uint64, content []byte) error {
	config := Topology{Replicas: replicas}.stream(BaseStream, subjects.Bases)
	config.AllowDirect = false // lagging replicas do not answer
	err := create(ctx, js, config)
	if err == nil {
		err = awaitInterest(ctx, js, subjects.Base(sequence))
	}
	if err == nil {
		err = storeBase(ctx, js, subjects.Base(sequence), content)
	}
	if err == nil {
		_, err = storedBase(ctx, js, sequence, sha256.Sum256(content))
	}
	if err != nil {
		return fmt.Errorf("storing the base: %w", err)
	}
	return nil
}

func storeBase(ctx context.Context, js natsjs.JetStream, subject string, content []byte) error {
	var expect []natsjs.PublishOpt
	number := 0
	for part := range slices.Chunk(content, partBytes) {
		m := &nats.Msg{Subject: subject, Data: part, Header: nats.Header{partHeader: {strconv.Itoa(number)}}}
		attempt, cancel := context.WithTimeout(ctx, appendTimeout)
		ack, err := js.PublishMsg(attempt, m, append(expect, natsjs.WithRetryAttempts(0))...)
		cancel()
		if err != nil {
			return err
		}
		number, expect = number+1, []natsjs.PublishOpt{natsjs.WithExpectLastSequence(ack.Sequence)}
	}
	return nil
}

// storedBase reads the base with a digest. An attempt to store it may have ended halfway:
// then its first parts are there twice.
func storedBase(ctx context.Context, js natsjs.JetStream, sequence uint64, digest bcp.Digest) (content []byte, err error) {
	err = AwaitAnswer(ctx, func() error {
		content = nil
		stream, err := js.Stream(ctx, BaseStream)
		sum := sha256.New()
		for next, number := uint64(1), 0; err == nil; {
			var m *natsjs.RawStreamMsg
			if m, err = stream.GetMsg(ctx, next, natsjs.WithGetMsgSubject(subjects.Base(sequence))); err != nil {
				break
			}
			if m.Header.Get(partHeader) == "0" {
				content, number = nil, 0
				sum.Reset()
			}
			if m.Header.Get(partHeader) != strconv.Itoa(number) || len(content)+len(m.Data) > maxSnapshot {
				return ErrBase
			}
			content, number, next = append(content, m.Data...), number+1, m.Sequence+1
			sum.Write(m.Data)
			if bcp.Digest(sum.Sum(nil)) == digest {
				return nil
			}
		}
		return err
	})
	return content, err
}

// StoredBase reads the base of a cluster with a truncated journal, as its file.
func StoredBase(ctx context.Context, js natsjs.JetStream, begin Beginning) (BaseFile, error) {
	file := BaseFile{Name: BaseName(begin.Decision)}
	content, err := storedBase(ctx, js, begin.Sequence, begin.Truncation.Base)
	switch {
	case errors.Is(err, natsjs.ErrStreamNotFound), errors.Is(err, natsjs.ErrMsgNotFound), errors.Is(err, ErrBase):
		return file, damagedBase(file.Name, "is not in the cluster as it was written", begin)
	case err != nil:
		return file, fmt.Errorf("reading the base: %w", err)
	}
	file.Content = content
	return file, nil
}
