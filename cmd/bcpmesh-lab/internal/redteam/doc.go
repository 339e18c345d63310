// Package redteam attacks a mesh with the credentials of hijacked agents, and
// reports what held.
//
//	report := redteam.Run(ctx, redteam.Config{State: folder, Seed: 1})
//
// Each attack of the [Catalogue] gets a mesh of its own on temporary state: a real
// server, real accounts, a real journal. Its agents are plain NATS connections
// with issued creds, so no SDK restrains the attacker. Every byte that a
// Controller's connection gets is kept.
//
// After each attack an oracle checks the five invariants of docs/ATTACKS.md. It
// shares no code with the gateway: it reads messages with the standard library's
// JSON, scrapes log and metrics for the attacker's words, and checks an export with
// package jetstream/verify, which shares nothing with what it checks.
//
// A finding is evidence against this build and these definitions. No finding
// proves nothing about attacks that are not in the catalogue.
package redteam
