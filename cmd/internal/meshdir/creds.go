package meshdir

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
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
	Passkey    bcp.Digest    `json:"passkey,omitzero"` // that an approver's are bound to
	Status     string        `json:"status"`           // valid, expired, revoked, unknown (to the mesh) or unchecked
}

// ReadCreds reads a creds file for a command that connects with it.
func ReadCreds(name string) (Creds, error) {
	content, err := cli.ReadFile(name, cli.MaxSmallFile)
	if err != nil {
		return Creds{}, err
	}
	who, err := ParseCreds(content)
	if err != nil {
		return Creds{}, cli.Failf("%s holds no credentials of a mesh: %s", cli.Quoted(name), err).WithHint("bcpmesh creds issue makes them")
	}
	return who, nil
}

// NotTaken is [NotReached] for a creds file. A server does not tell strangers why it
// refuses them: the file itself, and the keys of the mesh if they are near it, may.
func NotTaken(url, creds string, err error) *cli.Failure {
	f := NotReached(url, err)
	if !CredsRefused(err) {
		return f
	}
	who, failed := ReadCreds(creds)
	if failed != nil {
		return f
	}
	if folder, failed := Find(filepath.Dir(creds)); failed == nil {
		_ = who.Judge(folder.State) // without the keys it is what the file says
	}
	if errors.Is(err, nats.ErrAuthRevoked) {
		who.Status = "revoked"
	}
	if who.Status == "revoked" || who.Status == "expired" {
		return cli.Failf("the credentials in %s are %s", cli.Quoted(creds), who.Status).
			WithHint("the operator issues others: bcpmesh creds issue %s --role %s --out FILE", who.Agent, who.Role)
	}
	return f
}

// Judge sets the status to what the keys in a state folder say of the credentials, which they may not know.
func (c *Creds) Judge(state string) error {
	store, err := accounts.Open(state)
	if err != nil {
		return KeysFailure(err, state)
	}
	users, err := store.Users()
	if err != nil {
		return err
	}
	if c.Status != "expired" {
		c.Status = "unknown"
	}
	for _, u := range users {
		if u.PublicKey == c.PublicKey && u.Agent == c.Agent && u.Role == c.Role {
			c.Status = CredsStatus(u, time.Now())
		}
	}
	return nil
}

// CredsStatus is the word for the state of issued credentials.
func CredsStatus(u accounts.User, now time.Time) string {
	switch {
	case !u.Revoked.IsZero(), !u.Until.IsZero() && !u.Until.After(now):
		return "revoked"
	case !u.Expires.IsZero() && !u.Expires.After(now):
		return "expired"
	case !u.Until.IsZero():
		return "replaced"
	case u.Invitation:
		return "invited"
	}
	return "valid"
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
	for _, tag := range claims.Tags {
		if hash, bound := strings.CutPrefix(tag, bcp.PasskeyTag); bound && (!shown.Passkey.IsZero() || shown.Passkey.UnmarshalText([]byte(hash)) != nil) {
			return Creds{}, errors.New("the passkey that it is bound to cannot be read")
		}
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
