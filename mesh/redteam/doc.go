// Package redteam attacks a mesh with the credentials that a hijacked agent has, and
// says what held.
//
//	report := redteam.Run(ctx, redteam.Config{State: folder, Seed: 1})
//
// Each attack of the [Catalogue] gets a mesh of its own on temporary state: a real
// server, real accounts, a real journal. Its agents are stock NATS connections with
// issued creds, so that no library is polite on the attacker's behalf. Every byte
// that a Controller's connection gets is kept.
//
// After each attack one oracle looks at the five invariants of docs/ATTACKS.md. It
// shares no code with the gateway: it reads messages with the standard library's
// JSON, scrapes log and metrics for the attacker's words, and checks an export with
// package jetstream/verify, which shares nothing with what it checks.
//
// What is found is evidence against this build and these definitions. That nothing
// is found proves nothing about attacks that are not in the catalogue.
package redteam
