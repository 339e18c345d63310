package bcp

import (
	"time"
)

// Forecast is what the budgets of a channel have room for now, by the rules that
// decide: as many queries and pushes are accepted if they come at once, and no
// more.
type Forecast struct {
	Controller AgentName `json:"controller"`
	Reader     AgentName `json:"reader"`
	Queries    Room      `json:"queries"`
	Pushes     Room      `json:"pushes"`
	// Frees says when the sliding window gives back what, soonest first.
	Frees []Freed `json:"window_frees"`
}

// Room is what one kind of charge finds.
type Room struct {
	Epoch   uint64       `json:"epoch"` // that the next charge belongs to
	Opens   bool         `json:"opens"` // with it; until then the epoch of before is shown
	Budgets []BudgetRoom `json:"budgets"`
	Fits    []Fit        `json:"fits"`
}

// BudgetRoom is what one budget has left.
type BudgetRoom struct {
	Key   string `json:"key"` // of the definition
	Limit Bits   `json:"limit_bits"`
	Left  Bits   `json:"left_bits"`
}

// Fit is how often one form of a query, or a subscription, fits.
type Fit struct {
	Form         string         `json:"form,omitempty"` // of a query
	Subscription SubscriptionID `json:"subscription_id,omitempty"`
	Category     Category       `json:"category"`
	Nominal      Bits           `json:"nominal_bits"`
	Capacity     Bits           `json:"capacity_bits"`
	Times        int            `json:"times"`
	Until        Check          `json:"until"` // what refuses the next one
}

// Freed is a part of the window that is forgotten.
type Freed struct {
	At   time.Time `json:"at"`
	Bits Bits      `json:"bits"`
}
