package guard

import "testing"

func TestPrices(t *testing.T) {
	t.Parallel()
	many := make([]uint64, 50)
	for i := range many {
		many[i] = 100
	}
	for _, c := range []struct {
		starts uint64
		served []uint64
		want   NanoBits
	}{
		{0, nil, 1_000_000_000}, {1, nil, 1_000_000_000}, {2, nil, 2_000_000_000}, {3, nil, 2_584_962_501}, {0, []uint64{1}, 1_000_000_000}, {0, []uint64{3}, 3_584_962_501},
		{1, []uint64{1_000_000}, 39_863_138_582}, {5, many, 18_945_952_431}, {1 << 63, nil, 64_000_000_000},
	} {
		expect(t, LinkPrice(c.starts, c.served), c.want, "%d and %d bodies", c.starts, len(c.served))
	}
	for url, want := range map[string]NanoBits{"http://h.test/": 63, "https://h.test:8443/x": 113, "https://h.test/a#secret": 73, "https://h.test": 63, "https://h.test:443/": 63} {
		target, err := ParseTarget(url)
		if got, n := ComposedPrice(target); err != nil || got != want*bit || n != len(target.String())-len(target.Scheme())-len("://") {
			t.Errorf("%s: %d for %d bytes, %v", url, got, n, err)
		}
	}
}
