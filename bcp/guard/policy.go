package guard

import (
	"errors"
	"slices"
	"strings"
)

// Policy says which hosts and ports may be reached. The zero value allows nothing.
//
// An entry is `host` or `*.host`, perhaps with `:port`. `*` stands for exactly one label, and two labels or more follow it.
// An IP literal is in canonical form, IPv6 in brackets, and has no wildcard. An entry without a port allows 80 over http and
// 443 over https.
type Policy struct {
	// lists of entries, each of which must allow a target
	lists [][]entry
}

// entry is one entry of an allow-list.
type entry struct {
	host     host
	wildcard bool   // the host comes after "*."
	port     uint16 // 0: the scheme's own
	text     string // as it is written
}

var errEntry = errors.New("guard: not a host, *.host or host:port")

// ParseEntry reports whether s is an entry of an allow-list; the error says what one is.
func ParseEntry(s string) error {
	if _, ok := parseEntry(s); !ok {
		return errEntry
	}
	return nil
}

func parseEntry(s string) (entry, bool) {
	name, port, ok := cutPort(s)
	if !ok {
		return entry{}, false
	}
	name, wildcard := strings.CutPrefix(name, "*.")
	parsed, err := parseHost(name)
	if err != nil || wildcard && !strings.Contains(parsed.name, ".") {
		return entry{}, false
	}
	return entry{host: parsed, wildcard: wildcard, port: port, text: s}, true
}

// ParsePolicy returns the policy of an allow-list, and those of its entries that are none: they match nothing, and a
// checker of definitions reports them.
func ParsePolicy(allow []string) (p Policy, invalid []string) {
	list := []entry{}
	for _, s := range allow {
		if e, ok := parseEntry(s); ok {
			list = append(list, e)
		} else {
			invalid = append(invalid, s)
		}
	}
	return Policy{lists: [][]entry{list}}, invalid
}

// AllowVariable is the environment variable that narrows what agents may fetch: hosts, for [SplitHosts].
const AllowVariable = "BCPMESH_EGRESS_ALLOW"

// SplitHosts splits the value of an environment variable, such as [AllowVariable], into entries: they are separated by
// commas, and white space around them and empty ones do not count.
func SplitHosts(value string) []string {
	entries := []string{}
	for s := range strings.SplitSeq(value, ",") {
		if s = strings.TrimSpace(s); s != "" {
			entries = append(entries, s)
		}
	}
	return entries
}

// Narrow returns the policy that allows what both p and q allow.
func (p Policy) Narrow(q Policy) Policy {
	if len(p.lists) == 0 || len(q.lists) == 0 {
		return Policy{}
	}
	return Policy{lists: append(append([][]entry{}, p.lists...), q.lists...)}
}

// DeniesAll reports whether the policy allows nothing.
func (p Policy) DeniesAll() bool {
	return len(p.lists) == 0 || slices.ContainsFunc(p.lists, func(list []entry) bool { return len(list) == 0 })
}

// Check says whether t may be reached: nil, or the [Code] why not.
func (p Policy) Check(t Target) error {
	if t.IsZero() {
		return Malformed
	}
	if p.DeniesAll() {
		return DenyAll
	}
	for _, list := range p.lists {
		if err := checkList(list, t); err != nil {
			return err
		}
	}
	return nil
}

// Entry returns the entry of the policy's first list that allows t, as it is written, and nothing if there is none.
func (p Policy) Entry(t Target) string {
	if len(p.lists) > 0 {
		for _, e := range p.lists[0] {
			if checkList([]entry{e}, t) == nil {
				return e.text
			}
		}
	}
	return ""
}

// checkList says whether one list allows t.
func checkList(list []entry, t Target) error {
	var denied error = HostDenied
	for _, e := range list {
		switch {
		case !e.matchesHost(t.host):
		case e.port == t.port, e.port == 0 && t.port == defaultPort(t.https):
			return nil
		default:
			denied = PortDenied
		}
	}
	return denied
}

func (e entry) matchesHost(h host) bool {
	if !e.wildcard {
		return e.host == h
	}
	_, parent, ok := strings.Cut(h.name, ".")
	return ok && parent == e.host.name
}

// NamesPort reports whether each list of the policy has an entry for t with its port. An IP literal that has may be a
// loopback or private address: the operator wrote it down.
func (p Policy) NamesPort(t Target) bool {
	named := func(e entry) bool { return e.port == t.port && e.matchesHost(t.host) }
	for _, list := range p.lists {
		if !slices.ContainsFunc(list, named) {
			return false
		}
	}
	return len(p.lists) > 0
}

// Check parses a URL and says whether the policy allows it. The error is a [Code]: the first, in the order of the
// constants, that applies.
func Check(url string, p Policy) (Target, error) {
	t, err := ParseTarget(url)
	if err != nil {
		return Target{}, err
	}
	if err := p.Check(t); err != nil {
		return Target{}, err
	}
	return t, nil
}
