package bcptest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut("TestLong", "TestLonger")
	os.Exit(m.Run())
}

func TestLong(t *testing.T)   { t.Log("ran") }
func TestLonger(t *testing.T) { t.Log("ran") }

// What TestMain lists is left out with -short, beside what -skip names, and not without.
func TestLongOnesAreLeftOutWithShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{nil, []string{"TestLong", "TestLonger", "TestRounds"}},
		{[]string{"-test.short"}, []string{"TestRounds"}},
		{[]string{"-test.short", "-test.skip=^TestRounds$"}, nil},
		{[]string{"-test.skip=^TestRounds$"}, []string{"TestLong", "TestLonger"}},
	} {
		out, err := exec.CommandContext(t.Context(), os.Args[0], append(c.flags, "-test.v", "-test.run=^(TestLong|TestLonger|TestRounds)$")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.flags, err, out)
		}
		var ran []string
		for line := range strings.Lines(string(out)) {
			if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
				ran = append(ran, strings.TrimSpace(name))
			}
		}
		if !slices.Equal(ran, c.want) {
			t.Errorf("%v ran %v, want %v", c.flags, ran, c.want)
		}
		told := strings.Contains(string(out), "-short leaves out 2 tests: TestLong, TestLonger\n")
		if told != slices.Contains(c.flags, "-test.short") {
			t.Errorf("%v tells: %t", c.flags, told)
		}
	}
}

func TestRounds(t *testing.T) {
	n, some := bcptest.Rounds(100, 7), bcptest.Sample([]int{0, 1, 2, 3, 4, 5, 6}, 3)
	switch bcptest.Fast() {
	case true:
		if n != 7 || !slices.Equal(some, []int{0, 3, 6}) {
			t.Errorf("the fast form: %d rounds of %v", n, some)
		}
	case false:
		if n != 100 || len(some) != 7 {
			t.Errorf("the whole: %d rounds of %v", n, some)
		}
	}
}
