package redteam

// OK reports whether every attack was stopped, or did not apply.
func (r Report) OK() bool {
	return len(r.Results) > 0 && r.Count(Held)+r.Count(Skipped) == len(r.Results)
}

// Document is a report in JSON.
type Document struct {
	OK bool `json:"ok"`
	Report
}
