package accounts

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

const (
	authorityFolder = "tls"
	authorityFile   = "ca.pem"
	publicMode      = 0o644 // of the certificate, which is given away
	authorityKey    = "ca.key"

	// AuthorityLife is the lifetime of an authority's certificate. It is renewed
	// when a third is left, so holders of the older one must get the newer one
	// within that time.
	AuthorityLife = 9 * 365 * 24 * time.Hour
	// CertificateLife is the lifetime of a certificate that an authority issues.
	CertificateLife = 90 * 24 * time.Hour
	// backdated is the tolerance for clocks that are behind this one.
	backdated = time.Hour
)

// Authority is the certificate authority of one mesh. It certifies only the
// addresses where the mesh listens, for agents that got its certificate with
// their creds. It may be used concurrently.
type Authority struct {
	redacted
	file        string
	certificate *x509.Certificate
	// A function holds the key, as in a [Signer].
	sign func(template, parent *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error)
}

// AuthorityFile returns the path of the certificate of a mesh's authority, which
// may not exist yet.
func AuthorityFile(stateFolder string) string {
	return filepath.Join(stateFolder, authorityFolder, authorityFile)
}

// AuthorityFiles are the files of an authority, from the state folder.
func AuthorityFiles() []string {
	return []string{authorityFolder + "/" + authorityFile, authorityFolder + "/" + authorityKey}
}

// OpenAuthority opens the authority in a state folder. It creates it if
// necessary, and renews the certificate with the same key when a third of its
// time is left. Its key is sealed if the state folder's store is.
func OpenAuthority(stateFolder string, now time.Time, options ...OpenOption) (*Authority, error) {
	folder := filepath.Join(stateFolder, authorityFolder)
	keys := newStore(stateFolder, options) // it may not exist yet
	_, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFolder(folder, func(draft string) error { return createAuthority(draft, keys, now) })
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	a, err := readAuthority(folder, keys)
	if err != nil {
		return nil, fmt.Errorf("open the certificate authority: %w", err)
	}
	if due(a.certificate, now) {
		if err := a.renew(now); err != nil {
			return nil, fmt.Errorf("renew the certificate authority: %w", err)
		}
	}
	return a, nil
}

// due reports whether less than a third of a certificate's time is left.
func due(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3))
}

func createAuthority(draft string, keys *Store, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := keys.writeSecret(filepath.Join(draft, authorityKey), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), createFile); err != nil {
		return err
	}
	return newAuthority(draft, key).renew(now)
}

func newAuthority(folder string, key crypto.Signer) *Authority {
	return &Authority{
		file: filepath.Join(folder, authorityFile),
		sign: func(template, parent *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
			if public == nil {
				public = key.Public()
			}
			der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
			if err != nil {
				return nil, err
			}
			return x509.ParseCertificate(der)
		},
	}
}

func readAuthority(folder string, keys *Store) (*Authority, error) {
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	key, err := keys.readSecret(filepath.Join(folder, authorityKey))
	if err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(filepath.Join(folder, authorityFile)) // only we can write below the folder
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", authorityFile, authorityKey, err)
	}
	a := newAuthority(folder, pair.PrivateKey.(crypto.Signer)) // each private key is one
	a.certificate = pair.Leaf
	return a, nil
}

// renew writes a certificate for the authority's key from now on.
func (a *Authority) renew(now time.Time) error {
	template, err := newCertificate(now, AuthorityLife)
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	if a.certificate != nil {
		template.Subject = a.certificate.Subject // the subject of earlier certificates
	} else {
		name := sha256.Sum256(template.SerialNumber.Bytes())
		template.Subject = pkix.Name{CommonName: "bcpmesh " + hex.EncodeToString(name[:4])}
	}
	if a.certificate, err = a.sign(template, template, nil); err != nil {
		return err
	}
	return disk.Replace(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}), publicMode)
}

// File returns the path of the authority's certificate, by which agents recognise
// the mesh. It is not secret.
func (a *Authority) File() string { return a.file }

// Issue makes a certificate for host names and IP addresses, with a new key
// that is never written to disk. It is valid for [CertificateLife] from now.
func (a *Authority) Issue(names []string, now time.Time) (tls.Certificate, error) {
	template, err := newCertificate(now, CertificateLife)
	if err != nil {
		return tls.Certificate{}, err
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a certificate: %w", err)
	}
	leaf, err := a.sign(template, a.certificate, key.Public())
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func newCertificate(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-backdated).UTC(), NotAfter: now.Add(life).UTC()}, nil
}

// ReadAuthority returns the certificate in a file, such as [AuthorityFile]'s, and
// a pool that trusts only what is in it.
func ReadAuthority(file string) (*x509.Certificate, *x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read a certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if block, _ := pem.Decode(bytes.TrimSpace(text)); block != nil && pool.AppendCertsFromPEM(text) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			return c, pool, nil
		}
	}
	return nil, nil, fmt.Errorf("%s is no certificate", filepath.Base(file))
}
