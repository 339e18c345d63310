package bcp

// Forecast is what the budgets of a channel have left for the next query and push.
type Forecast struct {
	Controller AgentName `json:"controller"`
	Reader     AgentName `json:"reader"`
	Queries    Room      `json:"queries"`
	Pushes     Room      `json:"pushes"`
}

// Room is what one kind of charge finds.
type Room struct {
	Epoch   uint64       `json:"epoch"` // that the next charge belongs to
	Opens   bool         `json:"opens"` // with it; until then the epoch of before is shown
	Budgets []BudgetRoom `json:"budgets"`
}

// BudgetRoom is what one budget has left.
type BudgetRoom struct {
	Key   string `json:"key"` // of the definition
	Limit Bits   `json:"limit_bits"`
	Left  Bits   `json:"left_bits"`
}
