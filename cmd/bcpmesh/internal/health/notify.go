package health

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/notify"
)

// NotifyCommand returns the command notify.
func NotifyCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var test bool
	cmd := cli.Command("notify [ROUTE]...", func(ctx context.Context, args []string) error {
		def, folder, err := loadRoutes(where)
		if err != nil {
			return err
		}
		routes, err := chosen(def, args)
		if err != nil {
			return err
		}
		place := notify.Place{Folder: cli.Absolute(folder.Dir), Environ: os.Environ()}
		if !test {
			return listRoutes(p, folder, routes, place)
		}
		var results []tried
		for i := range routes {
			results = append(results, tryRoute(ctx, p, def, &routes[i], place))
		}
		return showTried(p, results)
	})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		def, _, err := loadRoutes(where)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return routeNames(def), cobra.ShellCompDirectiveNoFileComp
	}
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&test, "test", false, "send a test message by each")
	return cmd
}

// tried is what came of a test message.
type tried struct {
	Route string `json:"route"`
	Way   string `json:"way"`
	Taken bool   `json:"taken"`
	Why   string `json:"why,omitempty"`
}

func tryRoute(ctx context.Context, p *cli.Program, def *bcp.Mesh, route *bcp.Route, place notify.Place) tried {
	m := notify.Test(def, route, time.Now())
	result := tried{Route: route.Name, Way: route.Way(), Taken: true}
	if err := notify.Send(ctx, route, place, &m, cli.NewLogger(hclog.Info, p.Out.Stderr)); err != nil {
		result.Taken, result.Why = false, notify.Reason(err)
	}
	return result
}

func showTried(p *cli.Program, results []tried) error {
	failed := 0
	rows := make([][]string, len(results))
	for i, r := range results {
		says := "taken"
		if !r.Taken {
			says = r.Why
			failed++
		}
		rows[i] = []string{r.Route, r.Way, says}
	}
	if err := p.Out.Show(map[string][]tried{"routes": results}, func() { p.Out.Table([]string{"route", "by", "the message"}, rows) }); err != nil {
		return err
	}
	if failed > 0 {
		return cli.Failf("%s not accepted", cli.Count(failed, "message"))
	}
	return nil
}

// listed is a route with how it is.
type listed struct {
	Route    string            `json:"route"`
	Way      string            `json:"way"`
	Person   bcp.AgentName     `json:"person,omitempty"`
	For      []bcp.NoticeTopic `json:"for"`
	Severity bcp.Severity      `json:"severity"`
	Ready    bool              `json:"ready"` // its secrets can be read here
	Missing  string            `json:"missing,omitempty"`
	notify.Status
}

// listRoutes shows routes, and whether they accept messages.
func listRoutes(p *cli.Program, folder meshdir.Folder, of []bcp.Route, place notify.Place) error {
	status, err := notify.ReadStatus(filepath.Join(folder.State, notify.StatusFile))
	if err != nil {
		return cli.Failf("%s", err)
	}
	routes := []listed{}
	for i := range of {
		r := &of[i]
		l := listed{Route: r.Name, Way: r.Way(), Person: r.Person, For: r.Topics, Severity: r.Severity, Ready: true, Status: status[r.Name]}
		if err := notify.Check(r, place); err != nil {
			l.Ready, l.Missing = false, notify.Reason(err)
		}
		routes = append(routes, l)
	}
	return p.Out.Show(map[string][]listed{"routes": routes}, func() {
		rows := make([][]string, len(routes))
		for i := range routes {
			rows[i] = routes[i].row()
		}
		p.Out.Table([]string{"route", "by", "person", "for", "from", "found"}, rows)
	})
}

func (l *listed) row() []string {
	topics := cli.Map(l.For, func(t bcp.NoticeTopic) string { return t.String() })
	found := "no message yet"
	switch {
	case !l.Failing.IsZero():
		found = "fails since " + cli.Moment(l.Failing) + ": " + l.Why
	case !l.Delivered.IsZero():
		found = "taken at " + cli.Moment(l.Delivered)
	}
	if !l.Ready {
		found += "; here " + l.Missing
	}
	return []string{l.Route, l.Way, string(l.Person), strings.Join(topics, ", "), l.Severity.String(), found}
}

func loadRoutes(where meshdir.StateFlags) (*bcp.Mesh, meshdir.Folder, error) {
	folder, def, err := where.Load()
	if err != nil {
		return nil, folder, err
	}
	if len(def.Notify) == 0 {
		return nil, folder, cli.Failf("the mesh has no notification routes").WithHint("declare them under notify in mesh.yaml: docs/notifications.md")
	}
	return def, folder, nil
}

func routeNames(def *bcp.Mesh) []string {
	var names []string
	for i := range def.Notify {
		names = append(names, def.Notify[i].Name)
	}
	return names
}

// chosen are the routes of those names, or all.
func chosen(def *bcp.Mesh, names []string) ([]bcp.Route, error) {
	if len(names) == 0 {
		return def.Notify, nil
	}
	var routes []bcp.Route
	for _, name := range names {
		i := slices.Index(routeNames(def), name)
		if i < 0 {
			return nil, cli.Usagef("notify: there is no route %s", cli.Quoted(name)).WithHint("the mesh has %s", strings.Join(routeNames(def), ", "))
		}
		routes = append(routes, def.Notify[i])
	}
	return routes, nil
}

// notify looks at the routes of the definitions: whether their secrets can be read here,
// and whether the mesh that runs, or ran last, got messages through.
func (c *checkup) notify(folder meshdir.Folder, def *bcp.Mesh) {
	const id = "notify"
	if def == nil || len(def.Notify) == 0 {
		return
	}
	status, err := notify.ReadStatus(filepath.Join(folder.State, notify.StatusFile))
	if err != nil {
		c.add(id, warned, "the next message writes it again", "%s", err)
	}
	good := true
	place := notify.Place{Folder: cli.Absolute(folder.Dir), Environ: os.Environ()}
	for i := range def.Notify {
		r := &def.Notify[i]
		if s := status[r.Name]; !s.Failing.IsZero() {
			good = false
			c.add(id, failed, "bcpmesh notify --test "+r.Name, "the route %s has been failing for %s: %s (%s)", r.Name, client.Within(c.now.Sub(s.Failing)), s.Why, cli.Count(s.Attempts, "attempt"))
			continue
		}
		if err := notify.Check(r, place); err != nil {
			good = false
			c.add(id, warned, "the environment of bcpmesh up must have it", "the route %s: here %s", r.Name, notify.Reason(err))
		}
	}
	if good {
		c.ok(id, "%s", cli.Count(len(def.Notify), "notification route"))
	}
}
