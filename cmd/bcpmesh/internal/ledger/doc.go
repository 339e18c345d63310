// Package ledger has the commands that show the spending of channels:
// balances, history, plots, subscriptions, forecasts and the comparison with
// the journal. It reads as an auditor and changes nothing.
package ledger
