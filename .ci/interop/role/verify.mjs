// Verifies one envelope of bcpmesh with sigstore's DSSE and crypto, and leaves the bytes that
// were signed and the signature for openssl.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { crypto, dsse } from '@sigstore/core'

const [file, pem] = process.argv.slice(2)
const key = crypto.createPublicKey(readFileSync(pem, 'utf8'))
const envelope = JSON.parse(readFileSync(file, 'utf8'))
const payload = Buffer.from(envelope.payload, 'base64')
const signature = Buffer.from(envelope.signatures[0].sig, 'base64')
const verifies = (type, bytes, sig) => crypto.verify(dsse.preAuthEncoding(type, bytes), key, sig)

assert.equal(envelope.payloadType, 'application/vnd.in-toto+json')
assert.equal(envelope.signatures.length, 1)
assert.equal(envelope.signatures[0].keyid, crypto.digest('sha256', key.export({ type: 'spki', format: 'der' })).toString('hex'))
assert.ok(verifies(envelope.payloadType, payload, signature))
assert.ok(!verifies('application/json', payload, signature))
for (const bytes of [payload, signature]) {
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] ^= 1
    assert.ok(!verifies(envelope.payloadType, payload, signature), `byte ${i} is not signed`)
    bytes[i] ^= 1
  }
}

const statement = JSON.parse(payload)
assert.equal(statement._type, 'https://in-toto.io/Statement/v1')
assert.equal(statement.subject.length, 1)
const about = statement.predicate.declaration ?? statement.predicate
const text = JSON.stringify(about) // keys keep their order, and nothing is escaped
assert.ok(payload.includes(text))
assert.equal(statement.subject[0].digest.sha256, crypto.digest('sha256', text).toString('hex'))
if (statement.predicate.declaration) {
  assert.equal(statement.predicateType, 'https://bcpmesh.dev/attestation/role/v1')
  assert.equal(statement.subject[0].name, 'desk@org2.example')
  assert.equal(statement.predicate.evidence.permission_proof.holes, 0)
} else {
  assert.equal(statement.predicateType, 'https://bcpmesh.dev/attestation/revocations/v1')
  assert.equal(statement.subject[0].name, 'org2.example')
}
writeFileSync('signed', dsse.preAuthEncoding(envelope.payloadType, payload))
writeFileSync('signature', signature)
