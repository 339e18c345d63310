package server

import (
	"encoding/json"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Sender returns the public key of the user who sent an approval to the gateway.
// The server adds it to the message, and overwrites the sender's own header; on
// other subjects there is none.
func Sender(m *nats.Msg) (userKey string, ok bool) {
	values := m.Header.Values(natsserver.ClientInfoHdr)
	if len(values) != 1 {
		return "", false
	}
	var info natsserver.ClientInfo
	if err := json.Unmarshal([]byte(values[0]), &info); err != nil || !nkeys.IsValidPublicUserKey(info.User) {
		return "", false
	}
	return info.User, true
}
