package accounts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	bcptest.NoError(t, err)
	return b
}

// es256 is a key of two coordinates, as COSE has them.
func es256(t *testing.T, x, y string) crypto.PublicKey {
	t.Helper()
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, unhex(t, x)...), unhex(t, y)...))
	bcptest.NoError(t, err)
	return key
}

// mersenne is 2^n - 1.
func mersenne(n uint) *big.Int {
	one := big.NewInt(1)
	return new(big.Int).Sub(new(big.Int).Lsh(one, n), one)
}

// The authentications of WebAuthn Level 3, 16 ("Test Vectors"), are what they are said to be:
// each signature is good, that of a person who was verified counts, and that of one who was
// not does not, nor does any with a bit changed.
//
// covers P7.3
func TestVectorsOfTheStandard(t *testing.T) {
	t.Parallel()
	// SHA-256 of example.org.
	const site = "bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b5"
	for name, v := range map[string]struct {
		key                                crypto.PublicKey
		challenge, flags, clientData, sign string
		want                               error
	}{
		"ES256, no attestation": {
			key:        es256(t, "cfc8407a04dfa9f6e03fbeaed5bd8c8d228f0935ad341351f0d98cd2d4dcdfa8", "0c448c016a91ad80916969daf80498667373b628991ad0083644603b6787e10a"),
			challenge:  "eb4380b9dece113645d11ebf201ed62a81ff36a5077ace6398954d108e6d43e1",
			flags:      "01",
			clientData: `{"type":"webauthn.get","challenge":"60OAud7OETZF0R6_IB7WKoH_NqUHes5jmJVNEI5tQ-E","origin":"https://example.org","crossOrigin":false}`,
			sign:       "30450220715e21c6b13c98ad23c568cd72fd5f7188b3fd13f0a86135358c7c3335bcda1f022100f97a04b666149747295c6d65d4e3f6d645d6d15f7a52070f643ce06ad2dd5cc9",
			want:       PasskeyUnverified,
		},
		"ES256, a long credential id": {
			key:        es256(t, "8570e2a2eebbc3fc33faae35cae0509fea002faf2a66719104bdd1e716b3d604", "97946b3b71e5bfb919acfbc7cc35c0900f7160011982360f07a787ab610c96ba"),
			challenge:  "5bae46281f432f1ac4969c16e55f67d899edccd524caa23cdddf7fc973b649c1",
			flags:      "19",
			clientData: `{"type":"webauthn.get","challenge":"W65GKB9DLxrElpwW5V9n2JntzNUkyqI83d9_yXO2ScE","origin":"https://example.org","crossOrigin":false}`,
			sign:       "30460221009de28bde7345f6d3e95f5f7ef18a7a1da2c5f07e26c0f28364c62d4b460e6556022100d218112c00fb8bbbd7e9d99d7efb85ca7ed06af4fdd16c5a917199688393f064",
			want:       PasskeyUnverified,
		},
		"ES256, packed, more in the client data": {
			key:       es256(t, "d929edcf6627c74f7ba4cba265ed884d27110056b5c6dee6e3fcd13d1c635632", "3c489c0daaf3d8bac3230df46fe4ad9021bb0511134fee98653f4fe12de320d1"),
			challenge: "75c416ad06a84859f788a637e150a6bc890e23f0e0821f72144d1ae6630fdf9e",
			flags:     "01",
			clientData: `{"type":"webauthn.get","challenge":"dcQWrQaoSFn3iKY34VCmvIkOI_Dggh9yFE0a5mMP354","origin":"https://example.org","crossOrigin":false,` +
				`"extraData":"clientDataJSON may be extended with additional fields in the future, such as this: Rj6g0XXN2IbftG9A6lOuXg=="}`,
			sign: "304402205369085b0365b5178f509d9e3d5ef9ff85bc835865c5e4b834887944b339bb7f02206bba3a999c082ce27cea5638ffb264b97282bf22abad96241e51c42421f6383b",
			want: PasskeyUnverified,
		},
		"RS256": {
			key:        &rsa.PublicKey{N: new(big.Int).Mul(mersenne(1279), mersenne(2203)), E: 65537},
			challenge:  "0e53e5ab03396e94a74939561a26ec32ab94eb09428816d49161a5f35361842b",
			flags:      "01",
			clientData: `{"type":"webauthn.get","challenge":"DlPlqwM5bpSnSTlWGibsMquU6wlCiBbUkWGl81NhhCs","origin":"https://example.org","crossOrigin":false}`,
			sign: "02238462144cf5b235f4bb8dc357d925ac3db8a0885b8ece67f4108ac83c6cbdde97d09db17ee07598a6487984271e50490341fc4f8671f12f8fc98495cc99dc0d76edcc7c2f56770ce8dde2b1f0631b4fb15db2a085b85459e7f30d61438db99c44b7652980c507908177bd4d0a3891" +
				"34ddcfb92b39ab043a370aef02e478eeb0c1d8cc1aead4dd302c13582a00a8a246dbbf04ffa4d7b0bd26e8e0151b39bc09851da417219f579cccaebce56a13b8e89977fbe97a09bd2575250c6ca76a517c702b9c37ff1868ee6f12b7b2daada4cd23a11a5a2148fd59d66a68d73148d2b1" +
				"5bd836ac906810126bfd7809306fb8d9e30ee3b82fb6dbaf0d918400cc8583f503358de39eda75203bf8c6c9b8abefe21fd23ad1be9cdf65927050fed9efbedb342673b6d7736d09ccff280422609228666e1db82bb096ce950859b76509714637c2c82566c2803d5df34be9876eebfac9" +
				"e7ddbc0dd1e5c5d30c0ad67a41751c65cf82da501f46bb7ed43af882dac1d6203f0241eb9375a0dde36eaf407d39cdb215026e37f8d28a94b3a61354b0c12a454cf29d64313910d8008b82fc9ba91a23b309e6eae5cfecfa0dd59e15a42073e57388",
			want: PasskeyUnverified,
		},
		"Ed25519": {
			key:        ed25519.PublicKey(unhex(t, "b62ed483bb39ce5fd5b67850f3e8d415456dd4f8c3728b5eefb6ded99bcb7bec")),
			challenge:  "3790da8b2b72ee8ce19761787ad38cbfaa697eb3ca013a1342988756b98785ab",
			flags:      "0d",
			clientData: `{"type":"webauthn.get","challenge":"N5Daiyty7ozhl2F4etOMv6ppfrPKAToTQpiHVrmHhas","origin":"https://example.org","crossOrigin":false}`,
			sign:       "1a487f145f90a22935a28b6515b6140ace55fab6e5fae42eeef66e13fe279068e3b820072fddc205e7e3a756f0d80e167920004adfecc2106021c3a46f87820f",
		},
	} {
		spki, err := x509.MarshalPKIXPublicKey(v.key)
		bcptest.NoError(t, err)
		text := base64.RawURLEncoding.EncodeToString
		data, signature := unhex(t, site+v.flags+"00000000"), unhex(t, v.sign)
		a := &bcp.Assertion{RPID: "example.org", PublicKey: text(spki), AuthenticatorData: text(data), ClientData: text([]byte(v.clientData)), Signature: text(signature)}
		challenge, hash := [32]byte(unhex(t, v.challenge)), PasskeyHash("example.org", spki)
		if err := verifyAssertion(hash, a, challenge); !errors.Is(err, v.want) {
			t.Errorf("%s: %v, want %v", name, err, v.want)
		}
		said := sha256.Sum256([]byte(v.clientData))
		message := append(append([]byte{}, data...), said[:]...)
		if err := checkPasskeySignature(spki, message, signature); err != nil {
			t.Errorf("%s: the signature: %v", name, err)
		}
		for i := range message {
			if message[i] ^= 1; checkPasskeySignature(spki, message, signature) == nil {
				t.Errorf("%s: signed is also another byte %d", name, i)
			}
			message[i] ^= 1
		}
		if challenge[0]++; !errors.Is(verifyAssertion(hash, a, challenge), PasskeyChallenge) {
			t.Errorf("%s: it counts for another challenge", name)
		}
	}
}
