package server_test

import (
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// lines is a log that a test can read.
type lines struct{ bcptest.Log }

func (l *lines) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Trace})
}
