package meshdir

import (
	"errors"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Creds is what a creds file says. It holds no secret.
type Creds struct {
	Agent      bcp.AgentName `json:"agent"`
	Role       bcp.Role      `json:"role"`
	PublicKey  string        `json:"public_key"`
	IssuerKey  string        `json:"issuer_key"`
	AccountKey string        `json:"account_key"`
	Issued     time.Time     `json:"issued"`
	Expires    time.Time     `json:"expires,omitzero"` // zero: never
	Status     string        `json:"status"`           // valid, expired, revoked, unknown (to the mesh) or unchecked
}

// ParseCreds reads a creds file. Its errors quote nothing of it.
func ParseCreds(content []byte) (Creds, error) {
	token, err := jwt.ParseDecoratedJWT(content)
	if err != nil {
		return Creds{}, errors.New("it has no valid user JWT")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Creds{}, errors.New("it has no valid user JWT")
	}
	pair, err := jwt.ParseDecoratedUserNKey(content)
	if err != nil {
		return Creds{}, errors.New("it has no private key of a user")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return Creds{}, errors.New("its private key is not that of its JWT")
	}
	shown := Creds{
		PublicKey: claims.Subject, IssuerKey: claims.Issuer, AccountKey: claims.IssuerAccount,
		Issued: time.Unix(claims.IssuedAt, 0).UTC(), Status: "unchecked",
	}
	var ok bool
	if shown.Agent, shown.Role, ok = subjects.ParseUserName(claims.Name); !ok {
		return Creds{}, errors.New("it is not an agent's")
	}
	if !nkeys.IsValidPublicUserKey(shown.PublicKey) || !nkeys.IsValidPublicAccountKey(shown.AccountKey) {
		return Creds{}, errors.New("its keys are not those of a user and an account")
	}
	if claims.Expires != 0 {
		shown.Expires = time.Unix(claims.Expires, 0).UTC()
		if !time.Now().Before(shown.Expires) {
			shown.Status = "expired"
		}
	}
	return shown, nil
}
