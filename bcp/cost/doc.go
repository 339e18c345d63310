// Package cost says what a call of a language model costs: before it, at most, from
// the size of its request, and after it, from the tokens that its provider counted.
// All amounts are whole billionths of a US dollar, rounded up. It keeps nothing; the
// pool that a budget is held to is part of package bcp/state.
package cost
