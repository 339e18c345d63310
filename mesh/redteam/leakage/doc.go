// Package leakage tries to refute that no Reader, however hostile, moves more bits to a
// Controller than the ledger shows. It does so in ways that say different things and are
// never mixed:
//
//   - exact: every strategy of the Readers on the real state machine, under a clock of
//     its own (package exact). It says that all that a Controller can hear is charged,
//     for small meshes and horizons, and nothing of larger ones, of the bus or the clock.
//
// [Run] makes the tests of [Tests] one after the other.
package leakage
