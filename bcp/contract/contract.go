package contract

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Version is the version of the format of contracts.
const Version = "1.0"

// Contract is what a role does and never does. [Parse] makes it; the zero value
// promises nothing.
type Contract struct {
	Role Role `json:"role,omitempty"`
	// Digest is SHA-256 of the bytes that were read.
	Digest     bcp.Digest  `json:"sha256,omitzero"`
	Invariants []Invariant `json:"invariants,omitempty"`
	// Capabilities and Prohibited are words of [Words], none of them in both.
	Capabilities []string `json:"-"`
	Prohibited   []string `json:"-"`
}

// Invariant is one promise of a contract.
type Invariant struct {
	ID          string `json:"id"`
	Description string `json:"-"` // for people; nothing is decided by it
	Formal      string `json:"-"`
	// Predicate is the checkable form. The zero value says that there is no such
	// form, and that nothing can show the invariant.
	Predicate   Predicate `json:"predicate"`
	Enforcement string    `json:"enforcement"`
	// Level is what Enforcement declares.
	Level Level `json:"level"`
}

// The keys of the format.
const (
	keyVersion      = "contract:version"
	keyRole         = "contract:role"
	keyInvariants   = "contract:invariants"
	keyCapabilities = "contract:capabilities"
	keyProhibited   = "contract:prohibited"
)

var (
	contractKeys  = keys{required: []string{keyVersion, keyRole, keyInvariants, keyCapabilities, keyProhibited}}
	invariantKeys = keys{required: []string{"id", "description", "formal", "enforcement"}, optional: []string{"predicate"}}
)

// Parse reads a contract of the draft (section 4.1), strictly. It returns all the
// defects that it finds, in the order of the format; only a contract without defects
// is usable.
func Parse(b []byte) (Contract, []Defect) {
	if len(b) > MaxContract {
		return Contract{}, []Defect{{Code: TooLarge}}
	}
	var o map[string]jsontext.Value
	if wire.Check(b) == nil {
		o = members(b)
	}
	if o == nil {
		return Contract{}, []Defect{{Code: Malformed}}
	}
	r := reader{contract: Contract{Digest: sha256.Sum256(b)}}
	r.keys(o, contractKeys, "")
	version, ok := r.text(o[keyVersion], keyVersion, maxLabel)
	r.addIf(ok && version != Version, UnknownVersion, keyVersion)
	role, ok := r.text(o[keyRole], keyRole, maxLabel)
	r.contract.Role = Role(role)
	r.addIf(ok && !r.contract.Role.hasContract(), UnknownRole, keyRole)
	r.invariants(o[keyInvariants])
	r.contract.Capabilities = r.words(o[keyCapabilities], keyCapabilities, nil)
	r.contract.Prohibited = r.words(o[keyProhibited], keyProhibited, r.contract.Capabilities)
	if len(r.defects) > 0 {
		return Contract{}, r.defects
	}
	return r.contract, nil
}

// reader gathers a contract and its defects. Its methods take a missing value, which
// is a defect of the object around it, for no value.
type reader struct {
	contract Contract
	defects  []Defect
}

func (r *reader) addIf(wrong bool, code DefectCode, where string) {
	if wrong {
		r.defects = append(r.defects, Defect{Code: code, Where: where})
	}
}

func (r *reader) add(code DefectCode, where string) { r.addIf(true, code, where) }

// keys notes the keys that are missing and unknown. An unknown key is somebody
// else's text, and is not repeated.
func (r *reader) keys(o map[string]jsontext.Value, k keys, where string) {
	for _, key := range k.missing(o) {
		r.add(MissingKey, join(where, key))
	}
	for _, key := range slices.Sorted(slices.Values(k.unknown(o))) {
		r.defects = append(r.defects, Defect{UnknownKey, where, key})
	}
}

func (r *reader) invariants(v jsontext.Value) {
	if v == nil {
		return
	}
	elements, ok := list(v)
	switch {
	case !ok:
		r.add(Malformed, keyInvariants)
	case len(elements) > maxInvariants:
		r.add(TooManyInvariants, keyInvariants)
		return
	case len(elements) == 0:
		r.add(NoInvariants, keyInvariants)
	}
	seen := map[string]bool{}
	for i, element := range elements {
		where := at(keyInvariants, i)
		o := members(element)
		if o == nil {
			r.add(Malformed, where)
			continue
		}
		r.keys(o, invariantKeys, where)
		invariant := r.invariant(o, where)
		r.addIf(invariant.ID != "" && seen[invariant.ID], DuplicateID, join(where, "id"))
		seen[invariant.ID] = true
		r.contract.Invariants = append(r.contract.Invariants, invariant)
	}
}

func (r *reader) invariant(o map[string]jsontext.Value, where string) Invariant {
	var i Invariant
	id, ok := r.text(o["id"], join(where, "id"), maxText)
	if _, err := bcp.ParseClientID(id); err == nil {
		i.ID = id
	} else if ok {
		r.add(BadID, join(where, "id"))
	}
	i.Description, _ = r.text(o["description"], join(where, "description"), maxText)
	i.Formal, _ = r.text(o["formal"], join(where, "formal"), maxText)
	word, ok := r.text(o["enforcement"], join(where, "enforcement"), maxLabel)
	if i.Enforcement = word; ok {
		i.Level, ok = enforcements[word]
		r.addIf(!ok, UnknownEnforcement, join(where, "enforcement"))
	}
	i.Predicate = formals[normaliseFormula(i.Formal)]
	if stated := o["predicate"]; stated != nil {
		predicate, code := ParsePredicate(stated)
		switch {
		case code != "":
			r.add(code, join(where, "predicate"))
		case !i.Predicate.IsZero() && !i.Predicate.Equal(predicate):
			r.add(PredicateMismatch, join(where, "predicate"))
		}
		i.Predicate = predicate
	}
	return i
}

// text reads the text of a member, which may be empty. It is false if there is no
// text.
func (r *reader) text(v jsontext.Value, where string, most int) (text string, ok bool) {
	if v == nil {
		return "", false
	}
	if v.Kind() != '"' || json.Unmarshal(v, &text) != nil || len(text) > most {
		r.add(Malformed, where)
		return "", false
	}
	return text, true
}

// words reads a list of words of the table, which others may not have.
func (r *reader) words(v jsontext.Value, key string, others []string) (words []string) {
	if v == nil {
		return nil
	}
	elements, ok := list(v)
	if !ok || len(elements) > maxWords {
		r.add(Malformed, key)
		return nil
	}
	for i, element := range elements {
		word, ok := r.text(element, at(key, i), maxText)
		switch {
		case !ok:
		case !slices.Contains(Words(), word):
			r.add(UnknownWord, at(key, i))
		case slices.Contains(words, word):
			r.add(DuplicateWord, at(key, i))
		case slices.Contains(others, word):
			r.add(WordInBoth, at(key, i))
		default:
			words = append(words, word)
		}
	}
	return words
}

func at(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

// declares returns the strongest level at which a contract promises a predicate of
// this name, and of these arguments if there are any. A contract can promise only
// for its own role.
func (c *Contract) declares(name string, args []Arg) (Level, bool) {
	level, found := Declared, false
	for _, i := range c.Invariants {
		if i.Predicate.matches(name, args) && i.Predicate.subject() == c.Role {
			level, found = max(level, i.Level), true
		}
	}
	return level, found
}
