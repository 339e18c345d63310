package bcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// The acts about an endorsement.
const (
	Endorse Act = "endorse"
	Revoke  Act = "revoke"
)

// EndorsementID names an endorsement: random characters that the person's client chose.
type EndorsementID string

// minEndorsementID is the least length of one: 96 random bits in letters and digits.
const minEndorsementID = 20

// Endorsement is an approver's message: what may be released without a person from here
// on, which would otherwise be held (PROTOCOL P7.8, P7.9). It is of a channel, or of calls of
// a kernel. Of one that is revoked only ID and the channel or kernel are sent, without a
// signature: it takes away, and gives nobody anything.
type Endorsement struct {
	ID         EndorsementID `json:"endorsement_id"`
	Controller AgentName     `json:"controller,omitempty"`
	Reader     AgentName     `json:"reader,omitempty"`
	// Subscription is empty for answers to a query.
	Subscription SubscriptionID `json:"subscription_id,omitempty"`
	// Kernel and Tool are of calls, in place of the three above.
	Kernel AgentName `json:"kernel,omitempty"`
	Tool   string    `json:"tool,omitempty"`
	// Spec is [SpecDigest] of what was asked, or of what the subscription asks for; of calls
	// the SHA-256 of the canonical JSON of their critical arguments.
	Spec Digest `json:"spec,omitzero"`
	// Codes are the anomaly codes that an answer may have, in their fixed order.
	Codes []string `json:"codes,omitempty"`
	Uses  int      `json:"uses,omitzero"`
	// Bits is the most capacity of all that is released by it, in whole bits; of calls the
	// influence of content on their other arguments.
	Bits  int       `json:"bits,omitzero"`
	Until time.Time `json:"until,omitzero"` // whole seconds
	// Signature is of [Endorsement.Statement], and Passkey in its place, as in [Approval].
	Signature string     `json:"signature,omitempty"`
	Passkey   *Assertion `json:"passkey,omitempty"`
}

// Channel is the channel whose answers it is about; that of a kernel has no Reader.
func (e *Endorsement) Channel() ChannelKey {
	return ChannelKey{cmp.Or(e.Controller, e.Kernel), e.Reader}
}

// Statement is the text that an approver signs. It begins otherwise than that of an
// approval or of a batch, and fits neither.
func (e *Endorsement) Statement() []byte {
	about := "\ncontroller " + string(e.Controller) + "\nreader " + string(e.Reader) + "\nsubscription " + string(e.Subscription)
	if e.Kernel != "" {
		about = "\nkernel " + string(e.Kernel) + "\ntool " + e.Tool
	}
	return []byte("bcpmesh endorsement 1\nid " + string(e.ID) + about + "\nspec " + hex.EncodeToString(e.Spec[:]) + "\ncodes " + strings.Join(e.Codes, " ") +
		"\nuses " + strconv.Itoa(e.Uses) + "\nbits " + strconv.Itoa(e.Bits) + "\nuntil " + strconv.FormatInt(e.Until.Unix(), 10) + "\n")
}

// SpecDigest is what an endorsement knows a spec by: SHA-256 of its canonical JSON, as a
// [Validator] returns it.
func SpecDigest(s Spec) Digest {
	b, err := Encode(s, JSON)
	if err != nil {
		return Digest{} // which no endorsement has
	}
	return sha256.Sum256(b)
}

// neverEndorsed are the codes that a person always looks at: of what gives orders, or
// hides, or poses as something else, or must not be known.
const neverEndorsed = text.Instruction | text.RoleMarker | text.ToolCall | text.Invisible | text.Secret

// Endorsable reports whether codes, in their fixed order and each once, are of a sign that
// may be endorsed.
func Endorsable(codes []string) bool {
	set, ok := codeSet(codes)
	return ok && set != 0 && set&neverEndorsed == 0 && slices.Equal(set.Codes(), codes)
}

// EndorsedBy reports whether each of an answer's codes is among those of an endorsement.
func EndorsedBy(anomalies, codes []string) bool {
	found, known := codeSet(anomalies)
	given, ok := codeSet(codes)
	return known && ok && found != 0 && found&neverEndorsed == 0 && given.Has(found)
}

func codeSet(codes []string) (set text.Set, ok bool) {
	for _, word := range codes {
		code, known := text.ParseCode(word)
		if !known {
			return 0, false
		}
		set |= code
	}
	return set, true
}

// ParseEndorsement reads an approver's message about an endorsement, which is given or
// revoked. The code is empty or malformed.
func ParseEndorsement(act Act, b []byte) (Endorsement, Code) {
	e, code := parseJSON(b, MaxControllerMessage, func(e *Endorsement) bool { return e.valid(act) })
	if code != "" {
		code = Malformed // also of one that is too large
	}
	return e, code
}

func (e *Endorsement) valid(act Act) bool {
	_, badID := parseID[EndorsementID](string(e.ID))
	_, badController := ParseAgentName(string(cmp.Or(e.Controller, e.Kernel)))
	_, badReader := ParseAgentName(string(cmp.Or(e.Reader, e.Kernel)))
	if badID != nil || len(e.ID) < minEndorsementID || badController != nil || badReader != nil || e.Kernel != "" && (e.Controller != "" || e.Reader != "" || e.Subscription != "") {
		return false
	}
	if act == Revoke {
		rest := Endorsement{ID: e.ID, Controller: e.Controller, Reader: e.Reader, Kernel: e.Kernel}
		return e.Passkey == nil && e.Signature == "" && e.Tool == "" && string(rest.Statement()) == string(e.Statement())
	}
	if _, bad := ParseSubscriptionID(string(e.Subscription)); e.Subscription != "" && bad != nil {
		return false
	}
	if _, bad := parseID[string](e.Tool); (e.Kernel != "") != (e.Tool != "") || e.Tool != "" && (bad != nil || len(e.Codes) > 0) || e.Tool == "" && !Endorsable(e.Codes) {
		return false
	}
	return !e.Spec.IsZero() && e.Uses >= 1 && e.Bits >= 1 && e.Bits <= MaxBits && e.Until.Nanosecond() == 0 && e.Until.Unix() >= 0 && e.Until.UTC().Year() <= yearMax
}

// EndorseRule says who may endorse what is held on a channel, or calls of a tool, and how far. The zero value is
// nobody.
type EndorseRule struct {
	People  []AgentName
	MaxUses int
	MaxTime time.Duration
	MaxBits Bits
}

// Allows reports whether a person may have given so many uses and bits for so long.
func (r *EndorseRule) Allows(person AgentName, uses int, bits Bits, length time.Duration) bool {
	return slices.Contains(r.People, person) && uses <= r.MaxUses && bits <= r.MaxBits && length <= r.MaxTime
}

// EndorseTool is the rule of the calls of a kernel's tool.
type EndorseTool struct {
	Kernel AgentName
	Tool   string
	EndorseRule
}

// EndorsedCall is a call that a person would have to decide about.
type EndorsedCall struct {
	Kernel   AgentName
	Tool     string
	Critical Digest
	Bits     Bits // of content's influence on the other arguments
	Time     int64
}

// EndorseChange is what a decision says of an endorsement: it is given or revoked, or the
// decision released an answer by it.
type EndorseChange struct {
	ID EndorsementID `msgpack:"i" json:"endorsement_id"`
	// Uses and Bits are what is left after the decision.
	Uses int  `msgpack:"u,omitempty" json:"uses_left"`
	Bits Bits `msgpack:"b,omitempty" json:"bits_left"`
	// Codes, or Tool, and Until are of one that is given.
	Codes []string `msgpack:"c,omitempty" json:"codes,omitempty"`
	Tool  string   `msgpack:"o,omitempty" json:"tool,omitempty"`
	Until int64    `msgpack:"t,omitempty" json:"until,omitzero"`
}

// EndorseStatement is what a person signed who gave an endorsement, as the decision, which
// must be opened, has it.
func (d *Decision) EndorseStatement() []byte {
	given := d.Endorsed
	if given == nil || len(d.Spec) != len(Digest{}) {
		return nil
	}
	e := Endorsement{ID: given.ID, Controller: d.Controller, Reader: d.Reader, Subscription: d.Subscription, Spec: Digest(d.Spec), Codes: given.Codes,
		Uses: given.Uses, Bits: int(given.Bits / Bit), Until: time.Unix(0, given.Until)}
	if given.Tool != "" {
		e.Kernel, e.Tool, e.Controller = d.Controller, given.Tool, ""
	}
	return e.Statement()
}

// EndorsementView is an endorsement as the approvers of its channel or kernel see it: without
// what it is of, and its signature.
type EndorsementView struct {
	Endorsement
	By       AgentName `json:"by"`
	Given    time.Time `json:"given"`
	UsesLeft int       `json:"uses_left"`
	BitsLeft Bits      `json:"bits_left"`
	// Ended says why it releases nothing any more, empty while it does.
	Ended string `json:"ended,omitempty"`
}

// EndorseLimit is how much a person may endorse of what is like an item.
type EndorseLimit struct {
	Uses    int   `json:"uses"`
	Seconds int64 `json:"seconds"`
	Bits    int   `json:"bits"`
}

// EndorsementOf begins an endorsement of what is like an item, which needs its bounds, with
// an id of random letters and digits; why says that there can be none.
func EndorsementOf(v *ItemView, id EndorsementID) (e Endorsement, why string) {
	switch {
	case v.Kind == ItemEffect && v.Effect != nil && v.Effect.Person != "":
		return e, v.Effect.Person
	case v.Kind == ItemEffect && v.Effect != nil:
		critical, ok := v.Effect.critical(v.Content)
		if !ok {
			return e, "its critical arguments are not known"
		}
		return Endorsement{ID: id, Kernel: v.Controller, Tool: v.Effect.Tool, Spec: sha256.Sum256(critical)}, ""
	case v.Kind != ItemAnomaly:
		return e, "only answers that the rules object to and calls can be, and this is of kind " + string(v.Kind)
	case !Endorsable(v.Anomalies):
		return e, "somebody always looks at " + strings.Join(v.Anomalies, ", ")
	}
	return Endorsement{ID: id, Controller: v.Controller, Reader: v.Reader, Subscription: v.Subscription, Spec: SpecDigest(v.Spec), Codes: v.Anomalies}, ""
}

// critical returns the canonical JSON of the critical arguments of a call, as a person is
// shown them: each has to be there.
func (e *Effect) critical(content jsontext.Value) ([]byte, bool) {
	var shown struct {
		Args jsontext.Value `json:"args"`
	}
	var args map[string]jsontext.Value
	if json.Unmarshal(content, &shown) != nil || json.Unmarshal(shown.Args, &args) != nil {
		return nil, false
	}
	critical := map[string]jsontext.Value{}
	for i := range e.Arguments {
		if a := &e.Arguments[i]; a.Critical {
			value, there := args[a.Name]
			if !there {
				return nil, false
			}
			critical[a.Name] = value
		}
	}
	b, err := json.Marshal(critical, json.Deterministic(true))
	return b, err == nil && len(critical) > 0
}
