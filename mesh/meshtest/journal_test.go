package meshtest_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var files = map[string]string{
	"main.md": "---\nname: main\nbcp_channels:\n  - peer: mailer\n    role: controller\n    max_category: 1\n    budget_bits: 10\n" +
		"    subscriptions: [{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}]\n---\n",
	"mailer.md": "---\nname: mailer\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

var budgets = map[string]int64{"main mailer": 10 * int64(bcp.Bit)}

// decisions of a mesh in which something was asked, answered, pushed,
// delivered, acknowledged and refused.
func decisions(t *testing.T) (list [][]byte, keys map[string][]byte) {
	t.Helper()
	m := meshtest.Start(t, files)
	main, mailer := m.Connect(t, "main", 0), m.Connect(t, "mailer", 0)
	told, queries := main.Deliveries(t), mailer.Queries(t)
	id := main.Accepted(t, "mailer", `{"category":1,"fields":[{"name":"urgent","type":"boolean"}],"request_id":"r1"}`)
	mailer.Answer(t, queries.Next(t), `"response":{"urgent":true}`)
	main.Acknowledge(t, told.NextOf(t, meshtest.With("query_id", id)))
	m.WaitCount(t, 1, meshtest.Of(bcp.KindAcknowledge))
	for _, urgent := range []string{"true", "false", "1"} {
		mailer.Push(t, "main", "alerts", `{"urgent":`+urgent+`}`, `,"push_id":"`+urgent+`"`)
	}
	main.Accepted(t, "mailer", `{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`)
	m.Stop(t)
	js, end := m.Streams(t)
	defer end()
	for _, r := range meshtest.ReadJournal(t, js) {
		decisions, err := jetstream.DecodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, decisions...)
	}
	return list, meshtest.ReadKeys(t, js)
}

type record struct {
	V int      `msgpack:"v"`
	D [][]byte `msgpack:"d"`
}

// records packs each decision into a record of its own.
func records(t *testing.T, version int, list [][]byte) [][]byte {
	t.Helper()
	packed := make([][]byte, len(list))
	for i, d := range list {
		b, err := msgpack.Marshal(record{version, [][]byte{d}})
		if err != nil {
			t.Fatal(err)
		}
		packed[i] = b
	}
	return packed
}

// changed applies change to each decision, numbers them anew and mends the
// chain: what is wrong then is wrong in substance.
func changed(t *testing.T, list [][]byte, keys map[string][]byte, change func([]bcp.Decision) []bcp.Decision) [][]byte {
	t.Helper()
	all := make([]bcp.Decision, len(list))
	for i, b := range list {
		d, err := bcp.DecodeDecision(b)
		if err == nil {
			err = d.Open(keyOf(t, &d, keys))
		}
		if err != nil {
			t.Fatal(err)
		}
		all[i] = d
	}
	var result [][]byte
	var head bcp.Digest
	for i, d := range change(all) {
		d.Seq, d.Prev = uint64(i+1), head
		if d.Sealed = nil; d.Says() {
			if err := d.Seal(keyOf(t, &d, keys)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := bcp.EncodeDecision(&d)
		if err != nil {
			t.Fatal(err)
		}
		head = sha256.Sum256(append([]byte{0}, b...))
		result = append(result, b)
	}
	return result
}

func keyOf(t *testing.T, d *bcp.Decision, keys map[string][]byte) (key bcp.SealingKey) {
	t.Helper()
	channel, _ := d.Channel()
	if secret := keys[subjects.Key(channel.Controller, channel.Reader, subjects.SealedPayload, d.At().Format(time.DateOnly))]; secret != nil {
		var err error
		if key, err = bcp.NewSealingKey([32]byte(secret)); err != nil {
			t.Fatal(err)
		}
	}
	return key
}

// The checker that other tests rely on sees every kind of defect.
//
// covers A-CHAIN, P4.5
func TestCheckJournalSeesEachDefect(t *testing.T) {
	t.Parallel()
	list, keys := decisions(t)
	find := func(all []bcp.Decision, kind bcp.DecisionKind) int {
		return slices.IndexFunc(all, func(d bcp.Decision) bool { return d.Kind == kind })
	}
	again := func(kind bcp.DecisionKind, alter func(*bcp.Decision)) func([]bcp.Decision) []bcp.Decision {
		return func(all []bcp.Decision) []bcp.Decision {
			d := all[find(all, kind)]
			d.Time, d.Balance = all[len(all)-1].Time, all[len(all)-1].Balance
			if kind == bcp.KindPush {
				d.Balance.Settled, d.Balance.Pushed, d.Balance.SettledCapacity = d.Balance.Settled+d.Nominal, d.Balance.Pushed+d.Nominal, d.Balance.SettledCapacity+d.Capacity
			}
			alter(&d)
			return append(all, d)
		}
	}
	alter := func(kind bcp.DecisionKind, alter func(*bcp.Decision)) func([]bcp.Decision) []bcp.Decision {
		return func(all []bcp.Decision) []bcp.Decision { alter(&all[find(all, kind)]); return all }
	}
	for _, c := range []struct {
		name string
		list [][]byte
		want string // part of the error; empty where there is none
	}{
		{"sound", list, ""},
		{"sound, chained anew", changed(t, list, keys, func(all []bcp.Decision) []bcp.Decision { return all }), ""},
		{"one is missing", slices.Delete(slices.Clone(list), 3, 4), "is numbered"},
		{"the first is missing", list[1:], "is numbered"},
		{"two are swapped", append(slices.Clone(list[:2]), list[3], list[2]), "is numbered"},
		{"one came twice", append(slices.Clone(list[:3]), list[2]), "is numbered"},
		{"one bit is another", flipped(list, 4), "chained"},
		{"time goes back", changed(t, list, keys, alter(bcp.KindAcknowledge, func(d *bcp.Decision) { d.Time = 1 })), "earlier"},
		{"a balance is too low", changed(t, list, keys, alter(bcp.KindPush, func(d *bcp.Decision) { d.Balance.Settled-- })), "the sum is"},
		{"a charge is too low", changed(t, list, keys, alter(bcp.KindPush, func(d *bcp.Decision) { d.Nominal-- })), "the sum is"},
		{"a reservation is lost", changed(t, list, keys, alter(bcp.KindAsk, func(d *bcp.Decision) { d.Balance.Reserved = 0 })), "the sum is"},
		{"an answer counts twice", changed(t, list, keys, again(bcp.KindAnswer, func(d *bcp.Decision) { d.Delivery = "x" })), "not open"},
		{"a push id counts twice", changed(t, list, keys, again(bcp.KindPush, func(d *bcp.Decision) { d.Delivery = "x" })), "two outcomes"},
		{"a delivery id is used twice", changed(t, list, keys, again(bcp.KindPush, func(d *bcp.Decision) { d.Client = "" })), "used twice"},
		{"an acknowledgement comes twice", changed(t, list, keys, again(bcp.KindAcknowledge, func(*bcp.Decision) {})), "acknowledged twice"},
		{"nothing was delivered", changed(t, list, keys, alter(bcp.KindAcknowledge, func(d *bcp.Decision) { d.Delivery = "x" })), "not made"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			journal, err := meshtest.CheckJournal(records(t, 2, c.list), keys, budgets)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "" && (journal.Decisions != len(list) || journal.Asks["main mailer r1"] != 1 || journal.Pushes["main mailer true"] != 1 || journal.Pushes["main mailer 1"] != 0):
				t.Errorf("found %+v", journal)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("found %v", err)
			}
		})
	}
	if _, err := meshtest.CheckJournal(records(t, 1, list), keys, nil); err == nil {
		t.Error("another version passes")
	}
	if _, err := meshtest.CheckJournal(records(t, 2, list), keys, map[string]int64{"main mailer": 3}); err == nil || !strings.Contains(err.Error(), "overdrawn") {
		t.Errorf("an overdrawn pool passes: %v", err)
	}
	if _, err := meshtest.CheckJournal(records(t, 2, list), nil, nil); err == nil || !strings.Contains(err.Error(), "key is lost") {
		t.Errorf("without keys: %v", err)
	}
	if _, err := meshtest.CheckJournal([][]byte{[]byte("x")}, keys, nil); err == nil {
		t.Error("rubbish passes")
	}
}

// flipped changes a byte of a decision's context, which nothing but the chain
// knows.
func flipped(list [][]byte, at int) [][]byte {
	list = slices.Clone(list)
	b := slices.Clone(list[at])
	b[strings.Index(string(b), "\xa1x\xc4\x20")+4] ^= 1
	list[at] = b
	return list
}
