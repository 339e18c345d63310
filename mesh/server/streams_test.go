package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// rested makes a state folder with a stream that has one message, and returns the
// stream's folder.
func rested(t *testing.T, config *server.Config) string {
	t.Helper()
	config.StateDir = t.TempDir()
	store, err := accounts.Create(config.StateDir)
	noError(t, err)
	if config.Bundle, err = accounts.Compile(store, subjects.Permissions(mesh()), time.Now()); err != nil {
		t.Fatal(err)
	}
	js, end := run(t, *config)
	create(t, js)
	must(js.Publish(t.Context(), "bcp.v1.commit.0", []byte("first")))
	end()
	found, err := filepath.Glob(filepath.Join(config.StateDir, "jetstream", "jetstream", "*", "streams", "BCP_COMMIT"))
	stopIf(t, err != nil || len(found) != 1, "%v %v", found, err)
	return found[0]
}

func create(t *testing.T, js natsjs.JetStream) natsjs.Stream {
	t.Helper()
	stream, err := js.CreateOrUpdateStream(t.Context(), natsjs.StreamConfig{Name: "BCP_COMMIT", Subjects: []string{"bcp.v1.commit.>"}, Duplicates: 100 * time.Millisecond})
	noError(t, err)
	return stream
}

func run(t *testing.T, config server.Config) (js natsjs.JetStream, end func()) {
	t.Helper()
	s := must(server.Start(context.Background(), config))
	conn, err := s.Gateway()
	if err != nil {
		t.Fatal(errors.Join(err, s.Stop(context.Background())))
	}
	if js, err = natsjs.New(conn); err != nil {
		t.Fatal(err)
	}
	return js, func() { conn.Close(); stop(t, s) }
}

// A stream that could not be written is closed and opened again until it can be:
// what it had acknowledged is there, and it acknowledges again.
//
// covers P11.1
func TestUnwrittenStreamsAreOpenedAgain(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	config := server.Config{Unwritten: func(reason string) { told <- reason }}
	folder := rested(t, &config)
	js, end := run(t, config)
	defer end()
	block, away := filepath.Join(folder, "msgs", "1.blk"), filepath.Join(config.StateDir, "away")
	noError(t, errors.Join(os.Rename(block, away), os.Mkdir(block, 0o700)))
	publish := func(text string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := js.Publish(ctx, "bcp.v1.commit.0", []byte(text), natsjs.WithRetryAttempts(0))
		return err
	}
	fails(t, publish("second"), nil, "acknowledged what could not be written")
	bcptest.Next(t, told, "that it is closed")
	noError(t, errors.Join(os.RemoveAll(block), os.Rename(away, block)))
	bcptest.Next(t, told, "that it is opened")
	eventually(t, "it is acknowledged again", func() bool { return publish("third") == nil })
	stream := must(js.Stream(t.Context(), "BCP_COMMIT"))
	first, err := stream.GetMsg(t.Context(), 1)
	failIf(t, err != nil || string(first.Data) != "first", "the first message: %v %v", first, err)
}

// A stream is synced by its name; one that is not there is no success.
//
// covers P4.5
func TestSync(t *testing.T) {
	t.Parallel()
	config := server.Config{}
	rested(t, &config)
	s := must(server.Start(t.Context(), config))
	defer stop(t, s)
	noError(t, s.Sync("BCP_COMMIT"))
	fails(t, s.Sync("BCP_KEYS"), nil, "a stream that is not there counts as written")
}

// The server removes a stream that it cannot open from the disk. It is there again,
// the start is refused, and when the cause is gone everything is as before.
//
// covers P11.1, A-CRASH
func TestUnopenedStreamsAreKept(t *testing.T) {
	t.Parallel()
	var config server.Config
	folder := rested(t, &config)
	unreadable := filepath.Join(folder, "msgs", "2.blk")
	noError(t, errors.Join(os.Symlink("2.blk", unreadable), os.Remove(filepath.Join(folder, "msgs", "index.db"))))
	for range 2 {
		if _, err := server.Start(context.Background(), config); !errors.Is(err, server.ErrStreams) || !strings.Contains(err.Error(), "too many levels of symbolic links") {
			t.Errorf("started: %v", err)
		}
	}
	noError(t, os.Remove(unreadable))
	js, end := run(t, config)
	defer end()
	stream := must(js.Stream(t.Context(), "BCP_COMMIT"))
	m, err := stream.GetMsg(t.Context(), 1)
	failIf(t, err != nil || string(m.Data) != "first", "its message: %v %v", m, err)
	fails(t, errorOf(os.Stat(filepath.Join(config.StateDir, "jetstream", "keep"))), os.ErrNotExist, "second names are left")
}

// A stream whose description is damaged is there again, with its messages, once
// it is made anew; and at the next start by itself.
//
// covers P11.1
func TestDamagedDescription(t *testing.T) {
	t.Parallel()
	var config server.Config
	folder := rested(t, &config)
	noError(t, os.WriteFile(filepath.Join(folder, "meta.inf"), []byte(`{"name":"BCP_COMMIT"`), 0o600))
	js, end := run(t, config)
	fails(t, errorOf(js.Stream(t.Context(), "BCP_COMMIT")), natsjs.ErrStreamNotFound, "the damaged stream")
	create(t, js)
	end()
	js, end = run(t, config)
	defer end()
	stream := must(js.Stream(t.Context(), "BCP_COMMIT"))
	m, err := stream.GetMsg(t.Context(), 1)
	failIf(t, err != nil || string(m.Data) != "first", "its message: %v %v", m, err)
}
