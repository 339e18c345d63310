package client

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Within writes how long something lasts, roughly.
func Within(d time.Duration) string { return tell.Within(d) }

// OperatorCommand makes cmd do something as the operator, perhaps about the
// thing that its argument names; check looks at that before there is a
// connection.
func OperatorCommand(cmd *cobra.Command, check func(where meshdir.StateFlags, about string) error, do func(ctx context.Context, o *Client, about string) error) *cobra.Command {
	var where meshdir.StateFlags
	var wait cli.DurationFlag
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		about := strings.Join(args, "")
		if check != nil {
			if err := check(where, about); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), wait.Value)
		defer cancel()
		// What takes long must not be begun again before it is answered.
		who := Flags{Where: where, Attempt: wait.Value / operatorAttempts}
		c, err := who.Connect(ctx, bcp.RoleOperator)
		if err != nil {
			return err
		}
		defer c.Close()
		return meshdir.Failure(do(ctx, c, about))
	}
	where.AddTo(cmd)
	cli.WaitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

// operatorAttempts is how often an act is asked for within the time that it may take.
const operatorAttempts = 3

// ConnectOperator connects as the owner of the state folder.
func ConnectOperator(ctx context.Context, where meshdir.StateFlags) (*Client, error) {
	who := Flags{Where: where}
	return who.Connect(ctx, bcp.RoleOperator)
}
