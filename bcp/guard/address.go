package guard

import (
	"net/netip"
	"slices"
)

// special are the prefixes of the IANA special-purpose registries for IPv4 and, within 2000::/3, for IPv6, and multicast.
var special = []netip.Prefix{
	prefix4(0, 0, 0, 0, 8), // this network
	prefix4(10, 0, 0, 0, 8),
	prefix4(100, 64, 0, 0, 10), // shared address space
	prefix4(127, 0, 0, 0, 8),
	prefix4(169, 254, 0, 0, 16), // link-local, and the metadata services of clouds
	prefix4(172, 16, 0, 0, 12),
	prefix4(192, 0, 0, 0, 24),
	prefix4(192, 0, 2, 0, 24),
	prefix4(192, 31, 196, 0, 24), // AS112
	prefix4(192, 52, 193, 0, 24), // AMT
	prefix4(192, 88, 99, 0, 24),  // 6to4 relays
	prefix4(192, 168, 0, 0, 16),
	prefix4(192, 175, 48, 0, 24), // AS112
	prefix4(198, 18, 0, 0, 15),
	prefix4(198, 51, 100, 0, 24),
	prefix4(203, 0, 113, 0, 24),
	prefix4(224, 0, 0, 0, 4),
	prefix4(240, 0, 0, 0, 4),

	prefix6(0x2001, 0, 0, 23), // protocol assignments: Teredo, ORCHID, benchmarking
	prefix6(0x2001, 0x0db8, 0, 32),
	prefix6(0x2002, 0, 0, 16),           // 6to4
	prefix6(0x2620, 0x004f, 0x8000, 48), // AS112
	prefix6(0x3fff, 0, 0, 20),
}

var globalUnicast = prefix6(0x2000, 0, 0, 3)

func prefix4(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

func prefix6(a, b, c uint16, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{byte(a >> 8), byte(a), byte(b >> 8), byte(b), byte(c >> 8), byte(c)}), bits)
}

// Public reports whether a is an address of the open internet: no special-purpose prefix of the IANA registries, and for
// IPv6 inside 2000::/3 alone. An IPv4 address that is mapped into IPv6, an address with a zone and the zero value are not.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Is6() && (a.Zone() != "" || !globalUnicast.Contains(a)) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// PublicText reports whether s is the text of an address that is [Public].
func PublicText(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && Public(a)
}

// linkLocal are the prefixes that no allow-list opens: an address there is a neighbour's or a cloud's metadata service.
var linkLocal = []netip.Prefix{prefix4(169, 254, 0, 0, 16), prefix6(0xfe80, 0, 0, 10)}

// metadata are addresses outside the link-local prefixes at which clouds serve credentials of the machine.
var metadata = []netip.Addr{
	netip.AddrFrom4([4]byte{100, 100, 100, 200}),
	netip.AddrFrom4([4]byte{192, 0, 0, 192}),
	netip.AddrFrom4([4]byte{168, 63, 129, 16}),
	netip.AddrFrom16([16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}), // fd00:ec2::254
	netip.AddrFrom16([16]byte{0xfd, 0x20, 0x00, 0xce, 14: 0x02, 15: 0x54}), // fd20:ce::254
}

// forbidden reports whether a may never be dialled, whatever an operator lists.
func forbidden(a netip.Addr) bool {
	if !a.IsValid() || a.Is4In6() || a.Zone() != "" || slices.Contains(metadata, a) {
		return true
	}
	return slices.ContainsFunc(linkLocal, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Local reports whether a may be dialled because an operator's list names it with its port: a public, loopback or private
// address, and never a link-local one, a cloud's metadata service, the unspecified address or multicast.
func Local(a netip.Addr) bool {
	return !forbidden(a) && (a.IsLoopback() || a.IsPrivate() || Public(a))
}

// nat64Bits is the length of a prefix that carries an IPv4 address in its last 32 bits (RFC 6052).
const nat64Bits = 96

// Reachable reports whether an address that a name has may be dialled: a public one, or one inside the operator's prefixes,
// and never a link-local one or a cloud's metadata service. An IPv6 prefix of 96 bits is taken for NAT64, behind which the
// IPv4 address has to be public.
func Reachable(a netip.Addr, prefixes []netip.Prefix) bool {
	if forbidden(a) {
		return false
	}
	if Public(a) {
		return true
	}
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
		if !p.Contains(a) {
			return false
		}
		if !a.Is6() || p.Bits() != nat64Bits {
			return true
		}
		b := a.As16()
		behind := netip.AddrFrom4([4]byte(b[12:]))
		return Public(behind) && !forbidden(behind)
	})
}
