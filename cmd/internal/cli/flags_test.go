package cli

import "testing"

func TestNumberFlag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		least int
		text  string
		ok    bool
	}{
		{0, "0", true}, {1, "0", false}, {1, "1", true}, {0, "2147483647", true}, {0, "2147483648", false},
		{0, "-1", false}, {0, "", false}, {0, "1.5", false}, {0, " 1", false}, {0, "0x10", false},
	} {
		f := NumberFlag{Least: c.least}
		err := f.Set(c.text)
		failIf(t, (err == nil) != c.ok, "%q from %d: %v", c.text, c.least, err)
	}
}
