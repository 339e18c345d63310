package meshtest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal numbers and chains decisions of one channel, each in a record of its own, and gives each the balance of its pool:
// what is wrong then is wrong in substance.
func journal(list ...bcp.Decision) (records [][]byte) {
	var head bcp.Digest
	var sum bcp.Balance
	for i, d := range list {
		d.Controller, d.Reader, d.Epoch, d.Seq, d.Prev, d.Time = "main", "mailer", 1, uint64(i+1), head, int64(i+1)
		d.Salt[0] = byte(i + 1)
		if d.Kind != bcp.KindAcknowledge {
			d.Nominal, d.Capacity = bcp.Bit, bcp.Bit
		}
		switch d.Kind {
		case bcp.KindAsk:
			sum.Reserved, sum.ReservedCapacity = sum.Reserved+bcp.Bit, sum.ReservedCapacity+bcp.Bit
		case bcp.KindAnswer:
			sum.Reserved, sum.ReservedCapacity = sum.Reserved-bcp.Bit, sum.ReservedCapacity-bcp.Bit
			sum.Settled, sum.SettledCapacity = sum.Settled+bcp.Bit, sum.SettledCapacity+bcp.Bit
		case bcp.KindPush:
			sum.Settled, sum.SettledCapacity, sum.Pushed = sum.Settled+bcp.Bit, sum.SettledCapacity+bcp.Bit, sum.Pushed+bcp.Bit
		}
		d.Balance.Settled += sum.Settled
		d.Balance.Reserved, d.Balance.Pushed, d.Balance.SettledCapacity, d.Balance.ReservedCapacity = sum.Reserved, sum.Pushed, sum.SettledCapacity, sum.ReservedCapacity
		if err := d.Seal(bcptest.Must(bcp.NewSealingKey([32]byte{}))); err != nil {
			panic(err)
		}
		b := bcptest.Must(bcp.EncodeDecision(&d))
		head = bcp.RecordDigest(b)
		records = append(records, record(2, b))
	}
	return records
}

func record(version int, decision []byte) []byte {
	return bcptest.Must(msgpack.Marshal(struct {
		V int      `msgpack:"v"`
		D [][]byte `msgpack:"d"`
	}{version, [][]byte{decision}}))
}

// The checker that other tests rely on sees every kind of defect.
//
// covers A-CHAIN, P4.5
func TestCheckJournalSeesEachDefect(t *testing.T) {
	t.Parallel()
	push := bcp.Decision{Kind: bcp.KindPush, Role: bcp.RoleReader, Verdict: bcp.Accept, Private: bcp.Private{Client: "p"}, Delivery: "d1"}
	ask := bcp.Decision{Kind: bcp.KindAsk, Role: bcp.RoleController, Verdict: bcp.Accept, Private: bcp.Private{Client: "r"}, Query: "q"}
	answer := bcp.Decision{Kind: bcp.KindAnswer, Verdict: bcp.Accept, Query: "q", Delivery: "d2"}
	taken := bcp.Decision{Kind: bcp.KindAcknowledge, Delivery: "d1"}
	with := func(d bcp.Decision, change func(*bcp.Decision)) bcp.Decision { change(&d); return d }
	sound := journal(push, taken, ask, answer)
	keys := map[string][]byte{subjects.Key("main", "mailer", subjects.SealedPayload, "1970-01-01"): make([]byte, 32)}
	for name, c := range map[string]struct {
		messages [][]byte
		budget   int64
		want     string // part of the error; empty where there is none
	}{
		"sound":                  {sound, 2 * int64(bcp.Bit), ""},
		"one is missing":         {slices.Delete(slices.Clone(sound), 1, 2), 0, "does not follow"},
		"a balance is too low":   {journal(with(push, func(d *bcp.Decision) { d.Balance.Settled-- })), 0, "amount to"},
		"overdrawn":              {sound, 2*int64(bcp.Bit) - 1, "overdrawn"},
		"a query is used twice":  {journal(ask, with(ask, func(d *bcp.Decision) { d.Client = "" })), 0, "asked twice"},
		"it is answered twice":   {journal(ask, answer, with(answer, func(d *bcp.Decision) { d.Delivery = "x" })), 0, "reserved nothing"},
		"a push id counts twice": {journal(push, with(push, func(d *bcp.Decision) { d.Delivery = "x" })), 0, "an outcome twice"},
		"a delivery comes twice": {journal(push, with(push, func(d *bcp.Decision) { d.Client = "" })), 0, "delivered twice"},
		"and is taken twice":     {journal(push, taken, taken), 0, "acknowledged twice"},
		"nothing was delivered":  {journal(taken), 0, "not made"},
		"another version":        {[][]byte{record(1, nil)}, 0, "record 1"},
		"rubbish":                {[][]byte{[]byte("x")}, 0, "record 1"},
	} {
		budgets := map[string]int64{}
		if c.budget > 0 {
			budgets["main mailer"] = c.budget
		}
		found, err := meshtest.CheckJournal(c.messages, keys, budgets)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case c.want == "" && (err != nil || found.Decisions != 4 || found.Asks["main mailer r"] != 1 || found.Pushes["main mailer p"] != 1 || found.Balances["main mailer 1"].Settled != 2*bcp.Bit):
			t.Errorf("%s: %v, %+v", name, err, found)
		}
	}
	if _, err := meshtest.CheckJournal(sound, nil, nil); err == nil || !strings.Contains(err.Error(), "key is lost") {
		t.Errorf("without keys: %v", err)
	}
}
