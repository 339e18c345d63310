package jetstream

import (
	"errors"
	"fmt"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// A record is stored where the server says so of this record, and not otherwise.
//
// covers P11.1, A-CRASH
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	noError(t, acknowledged([]byte(`{"stream":"BCP_COMMIT","seq":7,"domain":"x","more":{}}`), 7))
	for _, answer := range []string{
		``, `{}`, `null`, `[]`, `{"seq":"7"}`, `{"seq":7.5}`, `{"seq":-7}`, `{"seq":7`, `{"seq":7}x`, `{"seq":7,"seq":7}`, `{"SEQ":7}`,
		`{"stream":"BCP_COMMIT","seq":6}`, `{"stream":"BCP_COMMIT","seq":8}`,
		`{"error":{"code":503,"err_code":10074,"description":"resources"},"stream":"BCP_COMMIT","seq":7}`,
		`{"error":{},"seq":7}`, `{"error":7,"seq":7}`,
	} {
		err := acknowledged([]byte(answer), 7)
		failIf(t, err == nil || wrongSequence(err), "%s: %v", answer, err)
	}
	err := acknowledged([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"BCP_COMMIT","seq":0}`), 7)
	var api *natsjs.APIError
	failIf(t, !wrongSequence(err) || !errors.As(err, &api) || api.Description != "wrong last sequence: 9", "%v", err)
}

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
