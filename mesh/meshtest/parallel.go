package meshtest

import (
	"flag"
	"strconv"
)

// Parallel has n tests of the package run at a time, unless -parallel says otherwise:
// for a TestMain of tests that wait for servers and processes most of the time.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
