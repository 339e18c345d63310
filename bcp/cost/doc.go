// Package cost prices calls of language models: before a call its maximum,
// from the size of the request, and afterwards the actual cost, from the
// provider's token counts. All amounts are whole billionths of a US dollar,
// rounded up. It keeps no state; budgets are in package bcp/state.
package cost
