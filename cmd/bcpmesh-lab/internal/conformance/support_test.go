package conformance_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/conformance"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut(
		"TestPlantedControllers", "TestPlantedReaders", "TestNobody",
	)
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

const (
	candidate bcp.AgentName = "candidate"

	patience = 30 * time.Second
	short    = 5 * time.Second  // for what a planted agent never does
	long     = 10 * time.Second // for the server to say what it has refused
)

func start(t *testing.T, c conformance.Config) *conformance.Rig {
	t.Helper()
	c.State, c.Arrival = t.TempDir(), patience
	c.Patience, c.Quiet = cmp.Or(c.Patience, patience), cmp.Or(c.Quiet, 200*time.Millisecond)
	r, err := conformance.Start(t.Context(), c)
	noError(t, err)
	t.Cleanup(func() {
		err := r.Stop(context.WithoutCancel(t.Context()))
		failIf(t, err != nil, "%v", err)
	})
	return r
}

// outsider is an agent on a stock client, with one bad habit.
type outsider struct {
	t     *testing.T
	nc    *nats.Conn
	habit string

	mu   sync.Mutex
	seen map[string]bool
}

func connect(t *testing.T, r *conformance.Rig, habit string) *outsider {
	t.Helper()
	options := []nats.Option{
		nats.UserCredentialBytes(r.Creds().Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(candidate)),
		nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if habit == "stays away" {
		options = append(options, nats.NoReconnect())
	}
	nc, err := nats.Connect(r.URL(), options...)
	noError(t, err)
	t.Cleanup(nc.Close)
	return &outsider{t: t, nc: nc, habit: habit, seen: map[string]bool{}}
}

func (o *outsider) listen(pattern string, hear func(*nats.Msg)) {
	o.t.Helper()
	if _, err := o.nc.Subscribe(pattern, hear); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outsider) has(habit string) bool { return o.habit == habit }

// first reports whether a thing is met for the first time.
func (o *outsider) first(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.seen[what]
	o.seen[what] = true
	return !was
}

func (o *outsider) say(subject string, data []byte) {
	_ = o.nc.Publish(subject, data) // refused where it may not
}

// own reports whether a reply subject is the agent's, in a role, and of id.
func own(reply string, role bcp.Role, id string) bool {
	s, err := subjects.Parse(reply)
	return err == nil && s.Kind == subjects.KindReply && s.Role == role && s.Agent == candidate && (id == "" || s.ID == id)
}

func fields(data []byte) map[string]any {
	m := map[string]any{}
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

// reader answers as it should, but for its habit.
func (o *outsider) reader() {
	o.listen(subjects.DeliveriesOf(bcp.RoleReader, candidate), o.told)
	o.listen(subjects.QueriesOf(candidate), o.queried)
	noError(o.t, o.nc.Flush())
}

func (o *outsider) told(m *nats.Msg) {
	kind, _ := fields(m.Data)["type"].(string)
	switch {
	case o.has("knows every member") && fields(m.Data)["later"] != nil:
		return
	case o.has("takes no list"), kind == "bcp_validation_result" && o.has("ignores results"):
		return
	case kind == "bcp_subscriptions_active" && o.has("takes the list once") && !o.first("list") && o.first("second list"):
		return
	}
	if fields(m.Data)["success"] == false {
		o.first("rejected")
	}
	o.say(m.Reply, nil)
	if kind == "bcp_subscriptions_active" && o.has("pushes what is not declared") {
		o.say(subjects.Push(candidate, "conformance", "status"), []byte(`{"type":"bcp_response","controller":"conformance","subscription_id":"status","response":{"changed":"yes"}}`))
	}
	if kind == "bcp_subscriptions_active" && o.has("pries") {
		o.say("$JS.API.INFO", nil)
	}
}

var answers = map[float64]string{
	1: `{"confirmed":true,"sources":3,"mood":"good"}`, 2: `{"when":"2026-03-15","topic":"rain in spring"}`, 3: `{"summary":"It is about rain."}`,
}

func (o *outsider) queried(m *nats.Msg) {
	q := fields(m.Data)
	id, _ := q["query_id"].(string)
	reply := m.Reply
	switch {
	case o.has("knows every member") && q["later"] != nil:
		return
	case q == nil || q["type"] != "bcp_query":
		if o.has("answers rubbish") && strings.Contains(string(m.Data), "bcp_inquiry") {
			break
		}
		return
	case o.has("answers anywhere") && !own(reply, bcp.RoleReader, "") && reply != "":
	case o.has("answers any query") && own(reply, bcp.RoleReader, ""):
	case !own(reply, bcp.RoleReader, id):
		return
	}
	if q["controller"] != "conformance" && !o.has("takes any controller") {
		return
	}
	category, _ := q["category"].(float64)
	if o.has("is deaf in category 1") && category == 1 && o.first("1") || o.has("is deaf in category 2") && category == 2 {
		return
	}
	response := `"response":` + answers[category]
	if strings.Contains(string(m.Data), "polygon") {
		response = `"not_enough_information":true`
		if o.has("guesses") {
			response = `"response":{"shape":"round"}`
		}
	}
	if o.has("says too much") && category == 3 {
		response = `"response":{"summary":"` + strings.Repeat("rain ", 40) + `"}`
	}
	if o.has("answers a query once") && !o.first(id) && !o.seen["rejected"] {
		return
	}
	if o.has("gives up when rejected") && o.seen["rejected"] && o.first("gave up") {
		return
	}
	if o.has("names another query") {
		id = "another"
	}
	text := []byte(`{"type":"bcp_response","query_id":"` + id + `",` + response + `}`)
	if o.has("writes MessagePack") {
		var err error
		if text, err = bcp.Encode(json.RawMessage(text), bcp.MessagePack); err != nil {
			o.t.Error(err)
		}
	}
	o.say(reply, text)
	if o.has("answers twice") {
		o.say(reply, text)
	}
}

// controller acknowledges as it should, but for its habit.
func (o *outsider) controller() {
	o.listen(subjects.DeliveriesOf(bcp.RoleController, candidate), o.delivered)
	noError(o.t, o.nc.Flush())
	ask := []byte(`{"category":1,"fields":[{"name":"urgent","type":"boolean"}]}`)
	switch {
	case o.has("asks badly"):
		ask = []byte(`{"category":1,"fields":[{"name":"urgent","type":"perhaps"}]}`)
	case o.has("pries"):
		o.say(subjects.Ask(candidate, "bystander"), ask)
		return
	case !o.has("insists"):
		return
	}
	for n := 0; n < 1 || o.has("insists") && n < 10; n++ {
		_ = o.nc.PublishRequest(subjects.Ask(candidate, "conformance"), subjects.InboxPrefix(candidate)+".x", ask)
	}
}

func (o *outsider) delivered(m *nats.Msg) {
	d := fields(m.Data)
	kind, _ := d["type"].(string)
	id, _ := d["delivery_id"].(string)
	if kind == "bcp_prompt" {
		if !o.has("ignores prompts") && own(m.Reply, bcp.RoleController, "") {
			o.say(m.Reply, nil)
		}
		return
	}
	switch {
	case o.has("takes nothing"):
		return
	case d == nil || kind != "bcp_response_delivery":
		if o.has("acknowledges rubbish") && bytes.HasPrefix(m.Data, []byte("{")) {
			o.say(m.Reply, nil)
		}
		return
	case o.has("acknowledges anywhere") && !own(m.Reply, bcp.RoleController, ""):
	case o.has("acknowledges any delivery") && own(m.Reply, bcp.RoleController, ""):
	case !own(m.Reply, bcp.RoleController, id):
		return
	}
	if from, _ := d["from_agent"].(string); !strings.HasSuffix(m.Subject, "."+from) && !o.has("takes any sender") {
		return
	}
	switch outcome := d["outcome"]; {
	case outcome == "later_code" && o.has("knows every outcome"):
		return
	case outcome == "held" && o.has("takes nothing that is held"), outcome == "expired" && o.has("takes no outcome"):
		return
	case o.has("acknowledges once") && !o.first(id):
		return
	}
	o.say(m.Reply, nil)
	if o.has("acknowledges twice") {
		o.say(m.Reply, nil)
	}
}

var noError, failIf = bcptest.NoError, bcptest.FailIf
