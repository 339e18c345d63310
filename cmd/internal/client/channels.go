package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// ChannelFlag is CONTROLLER/READER, or _ for no channel.
type ChannelFlag struct {
	Text  string
	Value bcp.ChannelKey
	Named bool // _ is none
}

// String returns the channel as it was given.
func (f *ChannelFlag) String() string { return f.Text }

// Type names the flag's values in the help.
func (f *ChannelFlag) Type() string { return "CONTROLLER/READER" }

// Set takes two names of agents.
func (f *ChannelFlag) Set(s string) error {
	if s == "_" && !f.Named {
		f.Text, f.Value = s, bcp.ChannelKey{}
		return nil
	}
	controller, reader, _ := strings.Cut(s, "/")
	c, err := bcp.ParseAgentName(controller)
	r, also := bcp.ParseAgentName(reader)
	switch {
	case err == nil && also == nil:
	case f.Named:
		return errors.New("expected two agents such as main/researcher")
	default:
		return errors.New("expected two agents such as main/researcher, or _")
	}
	f.Text, f.Value = s, bcp.ChannelKey{Controller: c, Reader: r}
	return nil
}

// completionTime is how long a shell waits for what only the running mesh knows.
const completionTime = 3 * time.Second

// CompleteFrom completes as many arguments as most by what a role is told of the running mesh, in its order.
func CompleteFrom(who *Flags, role bcp.Role, most int, ids func(context.Context, *Client) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c, err := who.Connect(ctx, role)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		left := slices.DeleteFunc(ids(ctx, c), func(one string) bool { // an id may have a description
			id, _, _ := strings.Cut(one, "\t")
			return slices.Contains(args, id)
		})
		return left, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// TimeFlag takes a moment: a time, a date, or how long ago it was.
type TimeFlag struct{ At time.Time }

// String returns the moment, or nothing for none.
func (f *TimeFlag) String() string {
	if f.At.IsZero() {
		return ""
	}
	return f.At.Format(time.RFC3339)
}

// Type names the flag's values in the help.
func (f *TimeFlag) Type() string { return "TIME" }

// Set takes 2026-03-15T12:00:00Z, "2026-03-15 12:00:00" or 2026-03-15, the last
// two in local time, or a duration such as 90m or 7d: so long ago.
func (f *TimeFlag) Set(s string) error {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		f.At = at
		return nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			f.At = at
			return nil
		}
	}
	var ago cli.DurationFlag
	if err := ago.Set(s); err != nil {
		return fmt.Errorf("expected a time such as 2026-03-15T12:00:00Z or \"2026-03-15 12:00\", or how long ago: 90m, 7d")
	}
	f.At = time.Now().Add(-ago.Value)
	return nil
}

// SpanFlags say from when and until when.
type SpanFlags struct{ Since, Until TimeFlag }

// Over reports whether a decision comes after the span.
func (f *SpanFlags) Over(d *bcp.Decision) bool {
	return !f.Until.At.IsZero() && !d.At().Before(f.Until.At)
}

// From finds the first record of the span.
func (f *SpanFlags) From(ctx context.Context, auditor *agents.Auditor) (uint64, error) {
	if f.Since.At.IsZero() {
		return 0, nil
	}
	from, err := auditor.From(ctx, f.Since.At)
	return from, meshdir.Failure(err)
}

// CompleteKernels completes the names of the kernels of the mesh.
var CompleteKernels = meshdir.CompleteDefined(func(mesh *bcp.Mesh) []string {
	return cli.Map(mesh.Kernels, func(k bcp.KernelRights) string { return string(k.Kernel) })
})

// CompleteChannels completes the channels of the mesh.
var CompleteChannels = meshdir.CompleteDefined(func(mesh *bcp.Mesh) []string {
	return cli.Map(mesh.Channels, func(c bcp.Channel) string { return string(c.Controller) + "/" + string(c.Reader) })
})
