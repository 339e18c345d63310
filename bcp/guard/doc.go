// Package guard is the content layer: it decides what an agent may read as it
// came, what it may not see, and where it may reach.
//
//   - [Clean] removes what a person cannot see, [Redact] hides secrets, and
//     [Fence] marks text as data. [Prepare] does the three in this order.
//   - [ParsePolicy], [ParseTarget] and [Policy.Check] decide which URL may be
//     fetched, and [Public] which address may be dialled.
//   - [LinkPrice] and [ComposedPrice] say how many bits a fetch tells the host.
//
// Everything is a pure function: no network, clock, randomness or goroutine.
// Who fetches, asks a model or writes a log calls these functions first.
//
// A fence and a redaction lower risk. They are counted as nothing when bits
// are priced, and they never widen what an agent may do.
package guard
