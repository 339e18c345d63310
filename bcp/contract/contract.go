package contract

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Version is the version of the format of contracts.
const Version = "1.0"

// Contract is what a role does and never does. [Parse] makes it; the zero value
// promises nothing.
type Contract struct {
	Role       Role
	Invariants []Invariant
	// Capabilities and Prohibited are words of [Words], none of them in both.
	Capabilities []string
	Prohibited   []string
	// Digest is SHA-256 of the bytes that were read.
	Digest bcp.Digest
}

// Invariant is one promise of a contract.
type Invariant struct {
	ID          string
	Description string // for people; nothing is decided by it
	Formal      string
	Enforcement string
	// Level is what Enforcement declares.
	Level Level
	// Predicate is the checkable form. The zero value says that there is no such
	// form, and that nothing can show the invariant.
	Predicate Predicate
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
		return Contract{}, []Defect{{Code: TooLarge, Offset: MaxContract}}
	}
	o, at, ok := value{raw: b}.object()
	if !ok {
		return Contract{}, []Defect{{Code: Malformed, Offset: at}}
	}
	r := reader{contract: Contract{Digest: sha256.Sum256(b)}}
	r.keys(&o, contractKeys, "")
	r.version(o.get(keyVersion))
	r.role(o.get(keyRole))
	r.invariants(o.get(keyInvariants))
	r.contract.Capabilities = r.words(o.get(keyCapabilities), keyCapabilities, nil)
	r.contract.Prohibited = r.words(o.get(keyProhibited), keyProhibited, r.contract.Capabilities)
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

func (r *reader) add(code DefectCode, where string, at int) {
	r.defects = append(r.defects, Defect{code, where, at})
}

// keys notes the keys that are missing and unknown. An unknown key is somebody
// else's text, and is not repeated.
func (r *reader) keys(o *object, k keys, where string) {
	for _, key := range o.missing(k) {
		r.add(MissingKey, join(where, key), o.at)
	}
	for _, at := range o.unknown(k) {
		r.add(UnknownKey, where, at)
	}
}

func (r *reader) version(v value) {
	if version, ok := r.text(v, keyVersion, maxLabel); ok && version != Version {
		r.add(UnknownVersion, keyVersion, v.at)
	}
}

func (r *reader) role(v value) {
	word, ok := r.text(v, keyRole, maxLabel)
	if r.contract.Role = Role(word); ok && !r.contract.Role.hasContract() {
		r.add(UnknownRole, keyRole, v.at)
	}
}

func (r *reader) invariants(v value) {
	if v.missing() {
		return
	}
	elements, long, ok := v.list(maxInvariants)
	switch {
	case long:
		r.add(TooManyInvariants, keyInvariants, v.at)
	case !ok:
		r.add(Malformed, keyInvariants, v.at)
	case len(elements) == 0:
		r.add(NoInvariants, keyInvariants, v.at)
	}
	seen := map[string]bool{}
	for i, element := range elements {
		where := at(keyInvariants, i)
		o, offset, ok := element.object()
		if !ok {
			r.add(Malformed, where, offset)
			continue
		}
		r.keys(&o, invariantKeys, where)
		invariant := r.invariant(&o, where)
		if id := invariant.ID; id != "" {
			if seen[id] {
				r.add(DuplicateID, join(where, "id"), o.get("id").at)
			}
			seen[id] = true
		}
		r.contract.Invariants = append(r.contract.Invariants, invariant)
	}
}

func (r *reader) invariant(o *object, where string) Invariant {
	var i Invariant
	i.ID = r.id(o.get("id"), join(where, "id"))
	i.Description, _ = r.text(o.get("description"), join(where, "description"), maxText)
	i.Formal, _ = r.text(o.get("formal"), join(where, "formal"), maxText)
	enforcement := o.get("enforcement")
	word, ok := r.text(enforcement, join(where, "enforcement"), maxLabel)
	if i.Enforcement = word; ok {
		if i.Level, ok = enforcements[word]; !ok {
			r.add(UnknownEnforcement, join(where, "enforcement"), enforcement.at)
		}
	}
	i.Predicate = formals[normaliseFormula(i.Formal)]
	if stated := o.get("predicate"); !stated.missing() {
		predicate, code := readPredicate(stated)
		switch {
		case code != "":
			r.add(code, join(where, "predicate"), stated.at)
		case !i.Predicate.IsZero() && !i.Predicate.Equal(predicate):
			r.add(PredicateMismatch, join(where, "predicate"), stated.at)
		}
		i.Predicate = predicate
	}
	return i
}

// text reads the text of a member, which may be empty. It is false if there is no
// text.
func (r *reader) text(v value, where string, most int) (string, bool) {
	if v.missing() {
		return "", false
	}
	text, ok := v.text(most)
	if !ok {
		r.add(Malformed, where, v.at)
	}
	return text, ok
}

func (r *reader) id(v value, where string) string {
	id, ok := r.text(v, where, maxText)
	if !ok {
		return ""
	}
	if _, err := bcp.ParseClientID(id); err != nil {
		r.add(BadID, where, v.at)
		return ""
	}
	return id
}

// words reads a list of words of the table, which others may not have.
func (r *reader) words(v value, key string, others []string) []string {
	if v.missing() {
		return nil
	}
	elements, _, ok := v.list(maxWords)
	if !ok {
		r.add(Malformed, key, v.at)
	}
	var words []string
	for i, element := range elements {
		word, ok := r.text(element, at(key, i), maxText)
		switch {
		case !ok:
		case !isWord(word):
			r.add(UnknownWord, at(key, i), element.at)
		case slices.Contains(words, word):
			r.add(DuplicateWord, at(key, i), element.at)
		case slices.Contains(others, word):
			r.add(WordInBoth, at(key, i), element.at)
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
