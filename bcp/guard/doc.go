// Package guard is the content layer: it decides what an agent may read, what
// is hidden from it, and which hosts it may reach.
//
//   - [Clean] removes what a person cannot see, [Redact] hides secrets, and
//     [Fence] marks text as data. [Prepare] does the three in this order.
//   - [ParsePolicy], [ParseTarget] and [Policy.Check] decide which URL may be
//     fetched, and [Public] which address may be dialled.
//   - [LinkPrice] and [ComposedPrice] say how many bits a fetch tells the host.
//
// All functions are pure: no network, clock, randomness or goroutine. Call
// them before you fetch, ask a model or write a log.
//
// Fences and redaction lower risk. They lower no price in bits, and they never
// widen what an agent may do.
package guard
