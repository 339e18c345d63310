package guard

import (
	"net/netip"
	"slices"
)

// special are the prefixes of the IANA special-purpose registries for IPv4 and, within 2000::/3, for IPv6, and multicast.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), // this network
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared address space
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), // link-local, and the metadata services of clouds
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("240.0.0.0/4"),

	netip.MustParsePrefix("2001::/23"), // protocol assignments: Teredo, ORCHID, benchmarking
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),         // 6to4
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),
}

var globalUnicast = netip.MustParsePrefix("2000::/3")

// Public reports whether a is an address of the open internet: no special-purpose prefix of the IANA registries, and for
// IPv6 inside 2000::/3 alone. An IPv4 address that is mapped into IPv6, an address with a zone and the zero value are not.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Is6() && (a.Zone() != "" || !globalUnicast.Contains(a)) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// PublicText reports whether s is the text of an address that is [Public].
func PublicText(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && Public(a)
}

// Loopback reports whether a host is this machine alone. Of names only localhost is: others
// may resolve to other addresses later.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// linkLocal are the prefixes that no allow-list opens: an address there is a neighbour's or a cloud's metadata service.
var linkLocal = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}

// metadata are addresses outside the link-local prefixes at which clouds serve credentials of the machine.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"),
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
