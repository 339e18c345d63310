package bcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What was said opens with its key, in its place, and not otherwise; the record
// does not contain it.
//
// covers P11.4, P11.5
func TestSealed(t *testing.T) {
	t.Parallel()
	canary := []byte(`{"q":"canary-payload"}`)
	raw := []byte("canary-raw" + strings.Repeat("x", 1000))
	d := fullDecision()
	d.Payload, d.Client, d.Spec = canary, "canary-client", []byte("canary-spec")
	said := d.Private
	noError(t, errors.Join(d.Seal(sealingKey), d.SealRaw(sealingKey, raw)))
	record, err := EncodeDecision(&d)
	stopIf(t, err != nil || bytes.Contains(record, []byte("canary")) || bytes.Contains(record, d.Salt[:]), "%q, %v", record, err)
	got, err := DecodeDecision(record)
	stopIf(t, err != nil || got.Says(), "%+v, %v", got, err)
	if err := got.Open(sealingKey); err != nil || cmp.Diff(said, got.Private) != "" {
		t.Errorf("%s, %v", cmp.Diff(said, got.Private), err)
	}
	b, err := got.OpenRaw(sealingKey)
	failIf(t, err != nil || !bytes.Equal(b, raw), "%q, %v", b, err)
	other := must(NewSealingKey([32]byte{2}))
	for name, change := range map[string]func(*Decision) SealingKey{
		"another key": func(*Decision) SealingKey { return other },
		"no key":      func(*Decision) SealingKey { return SealingKey{} },
		"a number":    func(d *Decision) SealingKey { d.Seq++; return sealingKey },
		"a channel":   func(d *Decision) SealingKey { d.Reader = "other"; return sealingKey },
		"an agent":    func(d *Decision) SealingKey { d.Agent = "other"; return sealingKey },
		"a byte":      func(d *Decision) SealingKey { d.Sealed[20] ^= 1; d.SealedRaw[20] ^= 1; return sealingKey },
		"cut": func(d *Decision) SealingKey {
			d.Sealed, d.SealedRaw = d.Sealed[:11], d.SealedRaw[:11]
			return sealingKey
		},
		"the wrong one": func(d *Decision) SealingKey { d.Sealed, d.SealedRaw = d.SealedRaw, d.Sealed; return sealingKey },
	} {
		changed := must(DecodeDecision(record))
		key := change(&changed)
		err := changed.Open(key)
		failIf(t, !errors.Is(err, ErrSealed) || changed.Says(), "%s: opened %+v, %v", name, changed.Private, err)
		b, err := changed.OpenRaw(key)
		failIf(t, !errors.Is(err, ErrSealed) || b != nil, "%s: opened %q, %v", name, b, err)
	}
}

// Nothing that was said is written in clear, and nothing is sealed without a key
// or under a nonce that may come twice.
//
// covers P11.5
func TestUnsealedIsNotWritten(t *testing.T) {
	t.Parallel()
	full := fullPrivate()
	for _, p := range []Private{{Client: "c"}, {ClientDigest: Digest{1}}, {Spec: []byte("s")}, {Payload: []byte("p")}, {RawBytes: 1},
		{Released: Digest{1}}, {Signature: []byte{1}}, {Batch: Batch{1}}, full} {
		d := Decision{Private: p}
		b, err := EncodeDecision(&d)
		failIf(t, !errors.Is(err, ErrUnsealed), "%+v is written as %q, %v", p, b, err)
	}
	must(EncodeDecision(&Decision{Private: Private{Salt: [16]byte{1}}}))
	saltless := Decision{Private: Private{Client: "c"}}
	err := saltless.Seal(sealingKey)
	failIf(t, !errors.Is(err, ErrUnsealed), "%v", err)
	keyless := Decision{Private: full}
	err = errors.Join(keyless.Seal(SealingKey{}))
	failIf(t, !errors.Is(err, ErrUnsealed), "%v", err)
	err = keyless.SealRaw(SealingKey{}, []byte("x"))
	failIf(t, !errors.Is(err, ErrUnsealed) || keyless.SealedRaw != nil, "%v", err)
}

// A short answer is as long as another one once it is sealed, and nonces differ
// between the parts and between decisions.
//
// covers P11.5
func TestSealedLength(t *testing.T) {
	t.Parallel()
	sealed := func(salt byte, payload, raw string) *Decision {
		d := Decision{Private: Private{Salt: [16]byte{salt}, Payload: []byte(payload), RawBytes: len(raw)}}
		noError(t, errors.Join(d.Seal(sealingKey), d.SealRaw(sealingKey, []byte(raw))))
		return &d
	}
	yes, no := sealed(1, `{"ok":true}`, `{"response":{"ok":true}}`), sealed(2, `{"ok":false}`, `{"response":{"ok":false}}`)
	failIf(t, len(yes.Sealed) != len(no.Sealed) || len(yes.SealedRaw) != len(no.SealedRaw),
		"%d and %d bytes, %d and %d", len(yes.Sealed), len(no.Sealed), len(yes.SealedRaw), len(no.SealedRaw))
	nonces := map[string]bool{}
	for _, b := range [][]byte{yes.Sealed, yes.SealedRaw, no.Sealed, no.SealedRaw} {
		nonces[string(b[:nonceSize])] = true
	}
	failIf(t, len(nonces) != 4, "%d nonces", len(nonces))
	for size := range 2 * sealedStep {
		raw := strings.Repeat("x", size)
		d := sealed(1, "", raw)
		if got, err := d.OpenRaw(sealingKey); err != nil || string(got) != raw || (len(d.SealedRaw)-nonceSize-tagSize)%sealedStep != 0 {
			t.Fatalf("%d bytes are %d sealed and open as %q, %v", size, len(d.SealedRaw), got, err)
		}
	}
	for _, size := range []int{MaxRawBytes, MaxRawBytes + 1} {
		got, err := sealed(1, "", strings.Repeat("x", size)).OpenRaw(sealingKey)
		failIf(t, err != nil || len(got) != MaxRawBytes, "of %d bytes %d are kept, %v", size, len(got), err)
	}
	for _, d := range []Decision{{Kind: KindAsk, Verdict: Reject}, {Kind: KindPush, Verdict: Accept, Repeat: true}, {Kind: KindSession, Verdict: Accept}, {Kind: KindTaint}, {Kind: KindDeclare, Verdict: Accept}, {Kind: KindViolation}} {
		for _, size := range []int{MaxFreeBytes, MaxFreeBytes + 1} {
			d.Salt = [16]byte{1}
			noError(t, d.SealRaw(sealingKey, bytes.Repeat([]byte("x"), size)))
			got, err := d.OpenRaw(sealingKey)
			failIf(t, err != nil || len(got) != MaxFreeBytes, "%s: of %d bytes %d are kept, %v", d.Kind, size, len(got), err)
		}
	}
}

// sealingKey is that of these tests.
var sealingKey = must(NewSealingKey([32]byte{1}))

// What is sealed is frozen as well: it opens in journals of earlier versions, and in this form alone.
//
// covers P4.5, P11.4
func TestSealingIsFrozen(t *testing.T) {
	t.Parallel()
	d := Decision{Seq: 7, Controller: "main", Reader: "mailer", Agent: "mailer", Kind: KindAnswer, Verdict: Accept}
	d.Client, d.Payload, d.Salt = "c1", []byte(`{"n":1}`), [16]byte{1}
	noError(t, errors.Join(d.Seal(sealingKey), d.SealRaw(sealingKey, []byte("raw"))))
	sum := sha256.Sum256(slices.Concat(d.Sealed, d.SealedRaw))
	failIf(t, hex.EncodeToString(sum[:8]) != "ff74a041404c8db6", "older journals would not open: %x", sum[:8])
}
