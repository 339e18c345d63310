package mesh_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// person is an approver, as a stock client.
type person struct{ *meshtest.Agent }

func approver(t testing.TB, m *meshtest.Mesh, name bcp.AgentName) person {
	t.Helper()
	return person{m.Connect(t, name, bcp.RoleApprover)}
}

// say sends one act and returns the reply.
func (p person) say(t testing.TB, verb subjects.Verb, text string) meshtest.Message {
	t.Helper()
	return p.Request(t, subjects.Approval(p.Name, verb), text)
}

// items returns what waits for the person, in the order of the list.
func (p person) items(t testing.TB) []bcp.Item {
	t.Helper()
	var list struct {
		Items []bcp.Item `json:"items"`
	}
	noError(t, bcp.Decode([]byte(p.say(t, subjects.VerbList, "{}").JSON), bcp.JSON, &list))
	return list.Items
}

// view returns an item with its content.
func (p person) view(t testing.TB, id bcp.ItemID) bcp.ItemView {
	t.Helper()
	var view bcp.ItemView
	reply := p.say(t, subjects.VerbGet, fmt.Sprintf(`{"item_id":%q}`, id))
	err := bcp.Decode([]byte(reply.JSON), bcp.JSON, &view)
	stopIf(t, err != nil || view.ID != id, "the item %s: %s, %v", id, reply.JSON, err)
	return view
}

// first returns the item that is listed first.
func (p person) first(t testing.TB) bcp.ItemView {
	t.Helper()
	items := p.items(t)
	stopIf(t, len(items) == 0, "nothing waits for %s", p.Name)
	return p.view(t, items[0].ID)
}

// act is what a person sends about an item. Its zero Expires is the item's
// deadline.
type act struct {
	verb     bcp.Act
	item     bcp.ItemID
	digest   bcp.Digest
	expires  time.Time
	reason   string
	response string // of an edit
}

func approves(view bcp.ItemView) act {
	return act{verb: bcp.Approve, item: view.ID, digest: view.SHA256, expires: view.Deadline.Truncate(time.Second)}
}

func rejects(view bcp.ItemView, reason string) act {
	return act{verb: bcp.RejectItem, item: view.ID, digest: sha256.Sum256([]byte(reason)), expires: view.Deadline.Truncate(time.Second), reason: reason}
}

// edits releases the response, which has to be in its one spelling.
func edits(view bcp.ItemView, response string) act {
	return act{verb: bcp.EditItem, item: view.ID, digest: sha256.Sum256([]byte(response)), expires: view.Deadline.Truncate(time.Second), response: response}
}

// sign returns the signature that the act needs, by p's key.
func (p person) sign(t testing.TB, a act) string {
	t.Helper()
	signature := must(p.Opts.SignatureCB(bcp.Statement(a.item, a.verb, a.digest, a.expires)))
	return base64.StdEncoding.EncodeToString(signature)
}

// text is the message of an act.
func (a act) text(signature string) string {
	members := []string{fmt.Sprintf(`"item_id":%q`, a.item), fmt.Sprintf(`"sha256":%q`, hex.EncodeToString(a.digest[:])),
		fmt.Sprintf(`"expires":%q`, a.expires.UTC().Format(time.RFC3339Nano))}
	if a.reason != "" {
		members = append(members, fmt.Sprintf(`"reason":%q`, a.reason))
	}
	if a.response != "" {
		members = append(members, `"response":`+a.response)
	}
	return "{" + strings.Join(append(members, fmt.Sprintf(`"signature":%q`, signature)), ",") + "}"
}

// decide signs and sends, and returns the reply.
func (p person) decide(t testing.TB, a act) meshtest.Message {
	t.Helper()
	return p.say(t, subjects.Verb(a.verb), a.text(p.sign(t, a)))
}

// decided expects that the act counts.
func (p person) decided(t testing.TB, a act) {
	t.Helper()
	if r := p.decide(t, a); r.JSON != fmt.Sprintf(`{"item_id":%q,"decision":%q}`, a.item, a.verb) {
		t.Fatalf("%s by %s: %s", a.verb, p.Name, r.JSON)
	}
}

// people is a mesh.yaml with three approvers.
const people = "approvers: [ann, bob, cyd]\nauditors: [eve]\nmax_refusals: 1000/m\n"

const (
	sumAnswer = `"response":{"summary":"All is well."}`
	sumText   = `{"summary":"all is well"}`
)

// claimedKey is the subject of a user JWT.
func claimedKey(t testing.TB, token string) string {
	t.Helper()
	claims := must(jwt.DecodeUserClaims(token))
	return claims.Subject
}
