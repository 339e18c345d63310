package jetstream

import (
	"fmt"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// What a cluster answers before it has heard of its nodes says nothing about the
// streams, and is asked again; what it refuses for good is not.
//
// covers P4.5
func TestUnanswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code        int
		number      natsjs.ErrorCode
		description string
		unanswered  bool
	}{
		{503, 10008, "JetStream system temporarily unavailable", true},
		{400, 10005, "no suitable peers for placement, peer offline", true},
		{400, 10005, "no suitable peers for placement, insufficient storage, miscellaneous issue", true},
		{400, 10005, "no suitable peers for placement, insufficient storage", false},
		{400, 10005, "no suitable peers for placement", false},
		{400, 10071, "wrong last sequence: 9", false},
		{400, 10058, "stream name already in use with a different configuration, peer offline", false},
		{404, 10059, "stream not found", false},
		{500, 10006, "JetStream not in clustered mode", false},
	} {
		err := fmt.Errorf("making: %w", &natsjs.APIError{Code: c.code, ErrorCode: c.number, Description: c.description})
		failIf(t, Unanswered(err) != c.unanswered, "%v: %v", err, !c.unanswered)
	}
}
