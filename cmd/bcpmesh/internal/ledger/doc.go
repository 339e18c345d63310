// Package ledger has the commands that show what channels spent: books, history,
// plots, subscriptions, forecasts and the comparison with the journal. It reads as
// an auditor and changes nothing.
package ledger
