package state

import (
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// all returns every outcome, oldest first.
func (f *firstOutcomes) all() iter.Seq2[clientKey, first] {
	return func(yield func(clientKey, first) bool) {
		place := f.oldest()
		for range f.kept {
			key, one, next, _ := f.read(place)
			if !yield(key, one) {
				return
			}
			place = next
		}
	}
}

// The compact store of outcomes is a map of them that forgets the oldest: each is found
// as it was added, repeats are counted, and none is found a day later. The number of a chunk
// wraps around.
//
// covers P2.6
func TestFirstOutcomes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	f := firstOutcomes{base: math.MaxUint32} // of which the next is 0
	model := map[clientKey]first{}
	var order []clientKey
	now := int64(0)
	most := 0
	for i := range bcptest.Rounds(60_000, 20_000) {
		// Some of it comes in bursts, some after hours: chunks and parts of the index
		// are made and go.
		if now += random.Int64N(1_000_000); random.IntN(5_000) == 0 {
			now += random.Int64N(30 * 60 * 60 * 1_000_000_000)
		}
		if i == 10_000 { // and in any case once, so that the count of chunks begins again
			now += clientMemory
		}
		for len(order) > 0 && now-model[order[0]].time >= clientMemory {
			delete(model, order[0])
			order = order[1:]
		}
		f.forget(now)
		one := first{time: now, nominal: bcp.Bits(random.Int64N(1 << random.IntN(62))), capacity: bcp.Bits(random.Int64N(100)), epoch: random.Uint64N(4),
			verdict: bcp.Outcome(random.IntN(4)), category: bcp.Category(random.IntN(4)), reason: bcp.Reason(random.IntN(3))}
		binary.BigEndian.PutUint64(one.digest[8:], random.Uint64())
		if random.IntN(2) == 0 {
			one.code, one.field, one.query = bcp.Malformed, strings.Repeat("f", random.IntN(300)), bcp.QueryID("Q"+strings.Repeat("x", random.IntN(26)))
			one.remains = bcp.Bits(random.Int64())
		}
		key := newClientKey(&bcp.Decision{Private: bcp.Private{Client: bcp.ClientID(strconv.Itoa(i))}})
		_, known := f.get(key)
		stopIf(t, known, "%d is known before", i)
		f.add(key, &one)
		model[key], order = one, append(order, key)
		most = max(most, f.kept)
		old := order[random.IntN(len(order))]
		got, ok := f.get(old)
		stopIf(t, !ok || got != model[old], "%d: %+v, %t; it was %+v", i, got, ok, model[old])
		stopIf(t, f.kept != len(model), "%d: %d are kept, not %d", i, f.kept, len(model))
	}
	n := 0
	for key, got := range f.all() {
		stopIf(t, key != order[n] || got != model[key], "%d in order: %+v; it was %+v", n, got, model[order[n]])
		n++
	}
	failIf(t, n != len(order) || most < 4096 || f.base > math.MaxInt32, "%d of %d in order; %d at most, from chunk %d on", n, len(order), most, f.base)
	f.forget(now + clientMemory)
	failIf(t, f.kept != 0 || f.chunks != nil || f.index != nil, "a day later %d are kept", f.kept)
}

// A remembered push takes at most 60 bytes of memory. It is measured alone.
//
// covers P2.6
func TestRememberedPushIsSmall(t *testing.T) {
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	var f firstOutcomes
	const all = 400_000
	for i := range all {
		// What a push of some bits costs, a thousand in a second.
		f.add(newClientKey(&bcp.Decision{Private: bcp.Private{Client: bcp.ClientID(strconv.Itoa(i))}}), &first{time: int64(i) * 1_000_000,
			verdict: bcp.Accept, category: 1, nominal: 3 * bcp.Bit, capacity: 4 * bcp.Bit, epoch: 7})
	}
	each := float64(used()-before) / all
	runtime.KeepAlive(&f)
	failIf(t, each > 60, "each takes %.1f bytes", each)
	t.Logf("each takes %.1f bytes", each)
}

// Ids are told apart by agent, role and channel, and by where one name ends and
// the next begins.
//
// covers P2.6
func TestClientKeys(t *testing.T) {
	t.Parallel()
	seen := make(map[clientKey]int)
	for i, d := range []bcp.Decision{
		{Role: bcp.RoleReader, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleController, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "main", Reader: "maile", Private: bcp.Private{Client: "rx"}},
		{Role: bcp.RoleReader, Controller: "mainm", Reader: "ailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "mailer", Reader: "main", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "y"}},
		{Role: bcp.RoleReader, Reader: "mailer", Private: bcp.Private{Client: "x"}},
	} {
		key := newClientKey(&d)
		before, twice := seen[key]
		failIf(t, twice, "%d and %d have the same key", before, i)
		seen[key] = i
	}
}
