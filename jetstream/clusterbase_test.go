package jetstream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A base of many parts is read as it was written, also behind an attempt that ended
// halfway; one that was altered, cut or removed is refused, with the backup that has it.
// The folder then has it too.
//
// covers P4.5, A-CHAIN
func TestBaseOfACluster(t *testing.T) {
	t.Parallel()
	js := streams(t)
	at := jetstream.Position{Sequence: 7, Decision: 9, Head: bcp.Digest{1}}
	base, err := jetstream.NewBases(t.TempDir()).Write(jetstream.Snapshot{Position: at, Checkpoint: bytes.Repeat([]byte("0123456789abcdef"), 50_000)})
	noError(t, err)
	begin := jetstream.Beginning{Position: at, Truncation: bcp.Truncation{Sequence: 7, Base: sha256.Sum256(base.Content), File: "office.tar.gz"}}
	read := func() error {
		folder := filepath.Join(t.TempDir(), "base")
		s, file, err := jetstream.NewBases(folder).Shared(js).Read(t.Context(), begin)
		failIf(t, err == nil && (!bytes.Equal(file.Content, base.Content) || s.Position != at), "it is not what was written")
		_, _, again := jetstream.NewBases(folder).Read(t.Context(), begin)
		failIf(t, err == nil && again != nil, "the folder does not have it: %v", again)
		return err
	}
	refused := func(what string) {
		t.Helper()
		err := read()
		failIf(t, !errors.Is(err, jetstream.ErrBase) || !strings.Contains(err.Error(), "office.tar.gz"), "%s: %v", what, err)
	}
	refused("no stream")
	noError(t, jetstream.StoreBase(t.Context(), js, 1, 3, []byte("another")))
	refused("none")
	must(js.PublishMsg(t.Context(), part(subjects.Base(7), "0", base.Content[:1000])))(t)
	refused("a part")
	noError(t, jetstream.StoreBase(t.Context(), js, 1, 7, base.Content))
	noError(t, read())
	stream := must(js.Stream(t.Context(), jetstream.BaseStream))(t)
	last, err := stream.GetLastMsgForSubject(t.Context(), subjects.Base(7))
	if err == nil {
		err = stream.SecureDeleteMsg(t.Context(), last.Sequence)
	}
	noError(t, err)
	refused("without its last part")
	last.Data[5] ^= 1
	must(js.PublishMsg(t.Context(), part(subjects.Base(7), last.Header.Get("Bcp-Part"), last.Data)))(t)
	refused("altered")
}

func part(subject, number string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{"Bcp-Part": {number}}}
}

// Records that are restored do not overtake the stream: it is waited for, nothing is
// stored meanwhile, and where it does not come the error says that nobody answers.
//
// covers P4.5
func TestRestoreAwaitsItsStream(t *testing.T) {
	t.Parallel()
	js := streams(t)
	journal := must(jetstream.OpenJournal(t.Context(), js))(t)
	noError(t, js.DeleteStream(t.Context(), jetstream.CommitStream))
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	err := journal.AwaitInterest(short)
	failIf(t, !jetstream.Unanswered(err), "without a stream: %v", err)
	failIf(t, short.Err() == nil, "it was not waited for")
	asked := must(js.Conn().SubscribeSync(subjects.Commit()))(t)
	done := make(chan error, 1)
	go func() { done <- journal.AwaitInterest(t.Context()) }()
	must(asked.NextMsg(10 * time.Second))(t)
	noError(t, asked.Unsubscribe())
	noError(t, jetstream.Create(t.Context(), js, jetstream.Topology{Replicas: 1}))
	err = <-done
	failIf(t, err != nil, "%v", err)
	stream, err := js.Stream(t.Context(), jetstream.CommitStream)
	failIf(t, err != nil || stream.CachedInfo().State.Msgs != 0, "it stored something: %+v, %v", stream, err)
}
