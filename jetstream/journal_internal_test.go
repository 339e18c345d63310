package jetstream

import (
	"errors"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// A record is stored where the server says so of this record, and not otherwise.
//
// covers P11.1, A-CRASH
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	if err := acknowledged([]byte(`{"stream":"BCP_COMMIT","seq":7,"domain":"x","more":{}}`), 7); err != nil {
		t.Error(err)
	}
	for _, answer := range []string{
		``, `{}`, `null`, `[]`, `{"seq":"7"}`, `{"seq":7.5}`, `{"seq":-7}`, `{"seq":7`, `{"seq":7}x`, `{"seq":7,"seq":7}`, `{"SEQ":7}`,
		`{"stream":"BCP_COMMIT","seq":6}`, `{"stream":"BCP_COMMIT","seq":8}`,
		`{"error":{"code":503,"err_code":10074,"description":"resources"},"stream":"BCP_COMMIT","seq":7}`,
		`{"error":{},"seq":7}`, `{"error":7,"seq":7}`,
	} {
		if err := acknowledged([]byte(answer), 7); err == nil || wrongSequence(err) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	err := acknowledged([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"BCP_COMMIT","seq":0}`), 7)
	var api *natsjs.APIError
	if !wrongSequence(err) || !errors.As(err, &api) || api.Description != "wrong last sequence: 9" {
		t.Errorf("%v", err)
	}
}
