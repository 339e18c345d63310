package guard

import (
	"net/netip"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

const (
	maxHost   = 253 // bytes of a name, dots included
	hostLabel = `[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?`
)

// hostName is labels of 1 to 63 of a-z, 0-9, _ and -, no hyphen at an end, no dot at the end.
var hostName = regexp.MustCompile(`^` + hostLabel + `(\.` + hostLabel + `)*$`)

// host is a checked host: a name in ASCII, lower case, or an address. The zero value is no host.
type host struct {
	name    string
	address netip.Addr
}

// String returns the host as it is in a URL: an IPv6 address in brackets.
func (h host) String() string {
	if h.address.Is6() {
		return "[" + h.address.String() + "]"
	}
	if h.address.IsValid() {
		return h.address.String()
	}
	return h.name
}

// Name returns the name to look up, in ASCII and lower case; it is empty if the host is an address.
func (t Target) Name() string { return t.host.name }

// Address returns the address of a host that is an IP literal.
func (t Target) Address() (netip.Addr, bool) { return t.host.address, t.host.address.IsValid() }

// parseHost reads the host of a URL or of a policy's entry. The error is a [Code].
func parseHost(s string) (host, error) {
	if strings.HasPrefix(s, "[") {
		return parseIPv6(s)
	}
	name, err := asciiName(s)
	if err != nil {
		return host{}, err
	}
	if len(name) > maxHost || !hostName.MatchString(name) {
		return host{}, Malformed
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x") {
		return host{name: name}, nil
	}
	address, err := netip.ParseAddr(name)
	if err != nil || address.String() != name {
		return host{}, AmbiguousAddress
	}
	return host{address: address}, nil
}

// parseIPv6 reads a bracketed literal. It is canonical but for the case of its digits, and embeds no IPv4 address.
func parseIPv6(s string) (host, error) {
	s, ok := strings.CutSuffix(strings.ToLower(s[1:]), "]")
	if !ok {
		return host{}, Malformed
	}
	address, err := netip.ParseAddr(s)
	switch {
	case err != nil || !address.Is6() || address.Zone() != "":
		return host{}, Malformed
	case strings.Contains(s, ".") || address.Is4In6():
		return host{}, AmbiguousAddress
	case address.String() != s:
		return host{}, NotCanonical
	}
	return host{address: address}, nil
}

// names converts between the two spellings of internationalised names: UTS 46, non-transitional, with the rules for
// bidirectional names and joiners.
var names = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.BidiRule(), idna.CheckJoiners(true))

// asciiName returns a name in ASCII and lower case. A name that is not ASCII must be its own canonical Unicode spelling but
// for its case, and labels that are encoded must be what encoding gives. The error is a [Code].
func asciiName(spelled string) (string, error) {
	if len(spelled) > 4*maxHost {
		return "", Malformed
	}
	name := strings.ToLower(spelled)
	plain := isASCII(spelled)
	if plain && !strings.Contains(name, "xn--") {
		return name, nil
	}
	encoded, err := names.ToASCII(name)
	if err != nil || strings.Trim(encoded, nameChars) != "" {
		return "", Malformed
	}
	decoded, err := names.ToUnicode(encoded)
	switch {
	case err != nil:
		return "", Malformed
	case plain && encoded != name:
		return "", Malformed
	case !plain && (decoded != name || !norm.NFC.IsNormalString(spelled)):
		return "", NotCanonical
	}
	if again, err := names.ToASCII(decoded); err != nil || again != encoded {
		return "", Malformed
	}
	return encoded, nil
}

const nameChars = "abcdefghijklmnopqrstuvwxyz0123456789._-"

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
