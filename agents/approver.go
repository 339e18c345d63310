package agents

import (
	"context"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Approver is the client of a person who decides about what is held. It needs
// no Start.
type Approver struct{ conn *Connection }

// NewApprover returns the Approver of a connection.
func NewApprover(c *Connection) *Approver { return &Approver{conn: c} }

// List returns what waits for a person, oldest first. Items tell about content
// and hold none of it.
//
// Errors: [*RefusedError]; [*UnansweredError] when ctx ended first.
func (a *Approver) List(ctx context.Context) ([]bcp.Item, error) {
	body, err := bcp.Encode(struct{}{}, a.conn.options.Encoding)
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	var list struct {
		Items []bcp.Item `json:"items"`
	}
	err = a.conn.request(ctx, subjects.Approval(a.conn.options.Name, subjects.VerbList), "", body, func(reply []byte) error {
		if err := a.conn.refusal(reply); err != nil {
			return err
		}
		if bcp.Decode(reply, a.conn.options.Encoding, &list) != nil {
			return ErrMessage
		}
		return nil
	})
	return list.Items, err
}
