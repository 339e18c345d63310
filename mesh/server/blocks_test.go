package server_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// A bit of a record's number is changed: the server would make room for all numbers
// in front of it. It does with that record what it does with one that is damaged
// elsewhere, whether it finds out before it opens the stream or while it serves, and
// what is in other blocks and in front of it is there.
//
// covers P11.1
func TestDamagedNumber(t *testing.T) {
	t.Parallel()
	const messages, size = 260, 100_000 // in four blocks
	told := make(chan string, 100)
	log := &lines{}
	config := server.Config{Logger: log.logger(), Unwritten: func(reason string) { told <- reason }}
	folder := rested(t, &config)
	js, end := run(t, config)
	publish := func(number int) {
		t.Helper()
		must(js.Publish(t.Context(), "bcp.v1.commit.0", append(fmt.Appendf(nil, "%d ", number), make([]byte, size)...)))
	}
	for n := 2; n <= messages; n++ {
		publish(n)
	}
	// held is how many messages the stream has; it may be closed just now.
	held := func(js natsjs.JetStream) uint64 {
		stream, err := js.Stream(t.Context(), "BCP_COMMIT")
		if err != nil {
			return math.MaxUint64
		}
		return stream.CachedInfo().State.Msgs
	}
	whole := held(js)
	end()
	blocks, err := filepath.Glob(filepath.Join(folder, "msgs", "*.blk"))
	stopIf(t, err != nil || len(blocks) != 4, "%d blocks: %v", len(blocks), err)
	for _, c := range []struct {
		block   string
		serving bool
	}{{"4.blk", false}, {"1.blk", true}} {
		lost := damageNumber(t, filepath.Join(folder, "msgs", c.block))
		js, end = run(t, config)
		// Where it begins fast enough, the server itself reads old blocks before we look at
		// them, and cuts off what is damaged.
		cut := c.serving && held(js) < whole
		if c.serving && !cut {
			for _, what := range []string{"closed", "opened"} {
				bcptest.Next(t, told, "%s: the streams are %s", c.block, what)
			}
		}
		if !cut && !strings.Contains(log.String(), "a block is damaged: the stream is opened without its index: block="+filepath.Join(folder, "msgs", c.block)) {
			t.Errorf("%s is not named: %s", c.block, log.String())
		}
		stream := must(js.Stream(t.Context(), "BCP_COMMIT"))
		for _, number := range []uint64{lost - 1, 100} {
			if m, err := stream.GetMsg(t.Context(), number); err != nil || !strings.HasPrefix(string(m.Data), fmt.Sprintf("%d ", number)) {
				t.Errorf("%s: message %d: %v", c.block, number, err)
			}
		}
		fails(t, errorOf(stream.GetMsg(t.Context(), lost)), natsjs.ErrMsgNotFound, "%s: the damaged message %d", c.block, lost)
		publish(0) // and an index is written
		whole = held(js)
		end()
	}
}

// damageNumber changes the number of the fourth record of a block, and returns what
// it was. It would cost half a gigabyte.
func damageNumber(t *testing.T, name string) (number uint64) {
	t.Helper()
	b := must(os.ReadFile(name))
	at := 0
	for range 3 {
		at += int(binary.LittleEndian.Uint32(b[at:]))
	}
	number = binary.LittleEndian.Uint64(b[at+4:])
	b[at+4+3] ^= 1 << 3 // 2^27
	noError(t, os.WriteFile(name, b, 0o600))
	return number
}
