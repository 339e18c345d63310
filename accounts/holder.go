package accounts

import (
	"errors"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Holder is whom a creds file is for, as the file says. It holds no secret.
type Holder struct {
	Agent      bcp.AgentName `json:"agent"`
	Role       bcp.Role      `json:"role"`
	PublicKey  string        `json:"public_key"`
	IssuerKey  string        `json:"issuer_key"`
	AccountKey string        `json:"account_key"`
	Issued     time.Time     `json:"issued"`
	Expires    time.Time     `json:"expires,omitzero"` // zero: never
	Passkey    bcp.Digest    `json:"passkey,omitzero"` // that an approver's are bound to
	Status     string        `json:"status"`           // valid, expired, revoked, unknown (to the mesh) or unchecked
}

// ParseHolder reads a creds file: its key must be that of its JWT, whose signature is not
// checked. Its status is unchecked, or expired. Errors quote nothing of the file.
func ParseHolder(content []byte) (Holder, error) {
	token, err := jwt.ParseDecoratedJWT(content)
	if err != nil {
		return Holder{}, errors.New("it has no valid user JWT")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Holder{}, errors.New("it has no valid user JWT")
	}
	pair, err := jwt.ParseDecoratedUserNKey(content)
	if err != nil {
		return Holder{}, errors.New("it has no private key of a user")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return Holder{}, errors.New("its private key is not that of its JWT")
	}
	h := Holder{
		PublicKey: claims.Subject, IssuerKey: claims.Issuer, AccountKey: claims.IssuerAccount,
		Issued: time.Unix(claims.IssuedAt, 0).UTC(), Status: "unchecked",
	}
	var ok bool
	if h.Agent, h.Role, ok = subjects.ParseUserName(claims.Name); !ok {
		return Holder{}, errors.New("it is not an agent's")
	}
	for _, tag := range claims.Tags {
		if hash, bound := strings.CutPrefix(tag, bcp.PasskeyTag); bound && (!h.Passkey.IsZero() || h.Passkey.UnmarshalText([]byte(hash)) != nil) {
			return Holder{}, errors.New("the passkey that it is bound to cannot be read")
		}
	}
	if !nkeys.IsValidPublicUserKey(h.PublicKey) || !nkeys.IsValidPublicAccountKey(h.AccountKey) {
		return Holder{}, errors.New("its keys are not those of a user and an account")
	}
	if claims.Expires != 0 {
		h.Expires = time.Unix(claims.Expires, 0).UTC()
		if !time.Now().Before(h.Expires) {
			h.Status = "expired"
		}
	}
	return h, nil
}

// Judge sets the status to what a store says of the credentials, which it may not know. Its
// errors are those of [Store.Users].
func (h *Holder) Judge(store *Store) error {
	users, err := store.Users()
	if err != nil {
		return err
	}
	if h.Status != "expired" {
		h.Status = "unknown"
	}
	for _, u := range users {
		if u.PublicKey == h.PublicKey && u.Agent == h.Agent && u.Role == h.Role {
			h.Status = u.Status(time.Now())
		}
	}
	return nil
}
