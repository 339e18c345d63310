package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ErrToken says that a text is not the token of an invitation.
var ErrToken = errors.New("agents: no token of an invitation")

const tokenPrefix = "bcpjoin1."

// Join makes a key, asks the mesh to sign it for the agent that a token invites,
// and returns the text of a creds file and its owner. The private key does not
// leave this process. The token is valid once; if no reply comes, Join retries with
// the same key until ctx ends. An approver who has a passkey joins with its hash: no
// decision over these creds counts without it.
//
// Errors: [ErrToken]; [*RefusedError] for any problem with the invitation;
// [*UnansweredError] when ctx ended first.
func Join(ctx context.Context, url, token string, passkey bcp.Digest, options ...nats.Option) (creds []byte, agent bcp.AgentName, role bcp.Role, err error) {
	seed, invited, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(token), tokenPrefix), ".")
	invitation, err := nkeys.FromSeed([]byte(seed))
	if !ok || err != nil || !strings.HasPrefix(strings.TrimSpace(token), tokenPrefix) {
		return nil, "", 0, ErrToken
	}
	defer invitation.Wipe()
	invitationKey, err := invitation.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(invitationKey) {
		return nil, "", 0, ErrToken
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", 0, fmt.Errorf("agents: joining: %w", err)
	}
	defer own.Wipe()
	key, err := own.PublicKey()
	if err != nil {
		return nil, "", 0, fmt.Errorf("agents: joining: %w", err)
	}
	ownSeed, err := own.Seed()
	if err != nil {
		return nil, "", 0, fmt.Errorf("agents: joining: %w", err)
	}
	signature, err := own.Sign(bcp.JoinStatement(invitationKey, key, passkey))
	if err != nil {
		return nil, "", 0, fmt.Errorf("agents: joining: %w", err)
	}
	options = append([]nats.Option{
		nats.Name("bcpmesh join"), nats.UserJWT(func() (string, error) { return invited, nil }, invitation.Sign),
		nats.CustomInboxPrefix(subjects.JoinInbox(invitationKey)), nats.MaxReconnects(-1), nats.Timeout(dialTimeout),
	}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, "", 0, fmt.Errorf("agents: joining: %w", err)
	}
	defer nc.Close()
	o, err := Options{Name: "join"}.withDefaults()
	if err != nil {
		return nil, "", 0, err
	}
	c := newConnection(o)
	c.nc = nc
	joined, err := askJSON[bcp.Joined](ctx, c, subjects.Join(invitationKey), bcp.JoinRequest{Type: bcp.TypeJoinRequest, Key: key, Signature: signature, Passkey: passkey})
	if err != nil {
		return nil, "", 0, err
	}
	if joined.Type != bcp.TypeJoined || joined.JWT == "" {
		return nil, "", 0, ErrMessage
	}
	if creds, err = jwt.FormatUserConfig(joined.JWT, ownSeed); err != nil {
		return nil, "", 0, ErrMessage
	}
	return creds, joined.Agent, joined.Role, nil
}
