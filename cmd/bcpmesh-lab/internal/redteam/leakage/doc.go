// Package leakage tries to refute that no Reader, however hostile, moves more bits to a
// Controller than the ledger shows. It does so in ways that say different things and are
// never mixed:
//
//   - exact: every strategy of the Readers on the real state machine, under a clock of
//     its own (package exact). It says that all that a Controller can hear is charged,
//     for small meshes and horizons, and nothing of larger ones, of the bus or the clock.
//   - closed: pairs of plays of a running mesh that differ in nothing but the form in
//     which a Reader says the same thing, over raw connections. All that the Controller
//     gets is compared byte by byte. It says that these channels carried nothing in so
//     many pairs, and nothing of time.
//   - measured: encoders move random secrets through a running mesh, and a decoder reads
//     them from all that the Controllers get. It says how many bits this encoder moved at
//     least, and nothing of better ones.
//
// [Run] makes the tests of [Tests] one after the other.
package leakage
