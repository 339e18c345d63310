package guard

import (
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"
	"pgregory.net/rapid"
)

// covers ALF-30
func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "9.255.255.255": true, "11.0.0.0": true, "100.63.255.255": true, "100.128.0.0": true, "126.255.255.255": true, "128.0.0.0": true, "169.253.255.255": true, "169.255.0.0": true,
		"172.15.255.255": true, "172.32.0.0": true, "192.0.1.0": true, "192.167.255.255": true, "192.169.0.0": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true,
		"2606:4700::1111": true, "2001:200::1": true, "2000::1": true, "3fff:1000::1": true, "2003::1": true,
		"0.0.0.0": false, "10.0.0.0": false, "10.255.255.255": false, "100.64.0.0": false, "127.0.0.1": false, "169.254.169.254": false, "172.16.0.0": false, "172.31.255.255": false, "192.0.0.1": false,
		"192.0.2.1": false, "192.88.99.1": false, "192.168.255.255": false, "198.18.0.0": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::ffff:8.8.8.8": false, "::ffff:169.254.169.254": false, "64:ff9b::808:808": false, "100::1": false, "2001::1": false, "2001:1ff:ffff::1": false, "2001:db8::1": false,
		"2002:808:808::1": false, "3fff::1": false, "4000::1": false, "5f00::1": false, "fc00::1": false, "fd00:ec2::254": false, "fe80::1": false, "fec0::1": false, "ff02::1": false, "2606:4700::1%eth0": false,
		"": false, "x": false, "8.8.8.8:53": false, " 8.8.8.8": false, "08.8.8.8": false, "1.1": false, "[2606:4700::1]": false, "134744072": false,
	} {
		expect(t, PublicText(text), want, "%q", text)
	}
	failIf(t, Public(netip.Addr{}) || Local(netip.Addr{}), "the zero value is an address")
}

// A list that is not ours says the same of random addresses.
func TestPublicAgreesWithALibrary(t *testing.T) {
	t.Parallel()
	guardian := ssrf.New(ssrf.WithAnyPort())
	rapid.Check(t, func(t *rapid.T) {
		var a netip.Addr
		if rapid.Bool().Draw(t, "six") {
			b := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
			b[0] = rapid.SampledFrom([]byte{b[0], 0x20, 0x26, 0x3f}).Draw(t, "first")
			a = netip.AddrFrom16(b)
		} else {
			b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes"))
			b[0] = rapid.SampledFrom([]byte{b[0], 10, 100, 127, 169, 172, 192, 198, 203}).Draw(t, "first")
			a = netip.AddrFrom4(b)
		}
		got, want := Public(a), guardian.SafeAddr(a) == nil
		failIf(t, got != want, "%s: %v, and the library %v", a, got, want)
	})
}

// covers ALF-30
func TestLocalIsNeverMetadata(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.1.1": true, "fd12::1": true, "8.8.8.8": true,
		"169.254.169.254": false, "169.254.1.1": false, "fe80::1": false, "fd00:ec2::254": false, "fd20:ce::254": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"0.0.0.0": false, "::": false, "224.0.0.1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false, "100.64.0.1": false,
	} {
		expect(t, Local(netip.MustParseAddr(text)), want, "%s", text)
	}
}

// covers ALF-30
func TestReachable(t *testing.T) {
	t.Parallel()
	prefixes := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("64:ff9b::/96"),
	}
	for text, want := range map[string][2]bool{ // without prefixes, and with them
		"8.8.8.8": {true, true}, "2606:4700::1111": {true, true},
		"10.1.2.3": {false, true}, "10.2.0.1": {false, false}, "fd12::1": {false, true}, "100.64.0.1": {false, true},
		"64:ff9b::808:808": {false, true}, "64:ff9b::a00:1": {false, false}, "64:ff9b::a9fe:a9fe": {false, false}, "64:ff9b::a83f:8110": {false, false},
		"169.254.169.254": {false, false}, "100.100.100.200": {false, false}, "168.63.129.16": {false, false}, "fd00:ec2::254": {false, false}, "fd20:ce::254": {false, false},
		"::ffff:10.1.2.3": {false, false}, "fd12::1%eth0": {false, false}, "127.0.0.1": {false, false},
	} {
		a := netip.MustParseAddr(text)
		expect(t, [2]bool{Reachable(a, nil), Reachable(a, prefixes)}, want, "%s", text)
	}
	failIf(t, Reachable(netip.Addr{}, prefixes), "the zero value is reached")
}
