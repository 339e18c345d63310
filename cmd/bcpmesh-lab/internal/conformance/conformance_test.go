package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/conformance"
)

func sdk(t *testing.T, r *conformance.Rig, encoding bcp.Encoding) *agents.Connection {
	t.Helper()
	c, err := agents.Connect(t.Context(), r.URL(), agents.CredsText(r.Creds().Text()), agents.Options{Name: r.Creds().Agent, Encoding: encoding})
	noError(t, err)
	t.Cleanup(c.Close)
	return c
}

func expect(t *testing.T, report conformance.Report, unseen ...string) {
	t.Helper()
	failIf(t, len(report.Checks) != len(conformance.Rules(report.Role)), "%d checks", len(report.Checks))
	for _, c := range report.Checks {
		want := conformance.Passed
		if slices.Contains(unseen, c.ID) {
			want = conformance.Unseen
		}
		failIf(t, c.Result != want, "%s %s: %s (%s)", c.ID, c.Text, c.Result, c.Detail)
	}
}

// Our own agents keep every rule, in both encodings.
//
// covers P9.3, P9.5, P3.10, P2.7, A-REPLY
func TestSDKReader(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, conformance.Config{Role: bcp.RoleReader, Encoding: encoding})
			reader := agents.NewReader(sdk(t, r, encoding))
			pushed := make(chan error, 1)
			reader.OnSubscriptions(func(list []bcp.ActiveSubscription) {
				go func() {
					_, err := reader.Push(context.WithoutCancel(t.Context()), list[0].Controller, list[0].SubscriptionID, map[string]any{"changed": true}, agents.PushOptions{})
					pushed <- err
				}()
			})
			reader.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
				switch {
				case q.Category == 2:
					return map[string]any{"when": "2026-03-15", "topic": "rain in spring"}, nil
				case q.Category == 3:
					return map[string]any{"summary": "It is about rain."}, nil
				case len(q.Fields) == 3:
					return map[string]any{"confirmed": true, "sources": 3, "mood": "good"}, nil
				}
				return agents.NotEnoughInformation{}, nil
			})
			noError(t, reader.Start(t.Context()))
			expect(t, r.Check(t.Context()))
			if err := <-pushed; err != nil {
				t.Error(err)
			}
			noError(t, reader.Stop(t.Context()))
		})
	}
}

// covers P9.1, P9.4, P7.6, P2.7, A-REPLY
func TestSDKController(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			r := start(t, conformance.Config{Role: bcp.RoleController, Encoding: encoding})
			controller := agents.NewController(sdk(t, r, encoding))
			controller.OnDelivery(func(context.Context, bcp.Delivery) error { return nil })
			controller.OnPrompt(func(context.Context, bcp.Prompt) {})
			noError(t, controller.Start(t.Context()))
			spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}
			_, err := controller.Ask(t.Context(), "conformance", spec, agents.AskOptions{})
			failIf(t, err == nil || !strings.Contains(err.Error(), string(bcp.RateLimited)), "the first ask: %v", err)
			if _, err := controller.Ask(t.Context(), "conformance", spec, agents.AskOptions{}); err != nil {
				t.Error(err)
			}
			expect(t, r.Check(t.Context()))
			noError(t, controller.Stop(t.Context()))
		})
	}
}

// An agent with one bad habit fails the check of that habit, and no other.
//
// covers P9.3, P9.5, P3.10, A-REPLY, A-DOUBLE
func TestPlantedReaders(t *testing.T) {
	t.Parallel()
	for id, habit := range map[string]string{
		"": "", "READER-02": "takes the list once", "READER-03": "is deaf in category 1", "READER-04": "is deaf in category 2", "READER-05": "says too much",
		"READER-06": "names another query", "READER-07": "writes MessagePack", "READER-08": "answers twice", "READER-09": "answers a query once",
		"READER-10": "ignores results", "READER-11": "gives up when rejected", "READER-12": "answers anywhere", "READER-13": "answers any query",
		"READER-14": "takes any controller", "READER-15": "guesses", "READER-16": "answers rubbish", "READER-17": "stays away",
		"READER-18": "pushes what is not declared", "READER-19": "pries", "READER-20": "knows every member",
	} {
		t.Run(id+" "+habit, func(t *testing.T) {
			t.Parallel()
			c := conformance.Config{Role: bcp.RoleReader}
			if slices.Contains([]string{"READER-02", "READER-03", "READER-04", "READER-09", "READER-10", "READER-11", "READER-17", "READER-20"}, id) {
				c.Patience = short
			}
			if id == "READER-12" {
				c.Quiet = long
			}
			r := start(t, c)
			connect(t, r, habit).reader()
			failed(t, r.Check(t.Context()), id)
		})
	}
}

// covers P9.1, P9.4, P7.6, A-REPLY
func TestPlantedControllers(t *testing.T) {
	t.Parallel()
	for id, habit := range map[string]string{
		"": "", "CONTROLLER-02": "acknowledges once", "CONTROLLER-03": "takes no outcome", "CONTROLLER-04": "takes nothing that is held",
		"CONTROLLER-05": "acknowledges anywhere", "CONTROLLER-06": "acknowledges any delivery", "CONTROLLER-07": "takes any sender",
		"CONTROLLER-08": "acknowledges rubbish", "CONTROLLER-09": "ignores prompts", "CONTROLLER-10": "acknowledges twice", "CONTROLLER-11": "stays away",
		"CONTROLLER-12": "asks badly", "CONTROLLER-13": "insists", "CONTROLLER-14": "pries", "CONTROLLER-15": "knows every outcome",
	} {
		t.Run(id+" "+habit, func(t *testing.T) {
			t.Parallel()
			c := conformance.Config{Role: bcp.RoleController}
			if slices.Contains([]string{"CONTROLLER-02", "CONTROLLER-03", "CONTROLLER-04", "CONTROLLER-09", "CONTROLLER-11", "CONTROLLER-15"}, id) {
				c.Patience = short
			}
			if id == "CONTROLLER-05" {
				c.Quiet = long
			}
			r := start(t, c)
			connect(t, r, habit).controller()
			failed(t, r.Check(t.Context()), id)
		})
	}
}

func failed(t *testing.T, report conformance.Report, id string) {
	t.Helper()
	var want []string
	if id != "" {
		want = []string{id}
	}
	if got := report.Failed(); !slices.Equal(got, want) {
		t.Errorf("failed %v, not %v", got, want)
		for _, c := range report.Checks {
			t.Logf("%s %s %s", c.ID, c.Result, c.Detail)
		}
	}
}

// Who takes nothing, or does not come, fails everything that depends on it.
func TestNobody(t *testing.T) {
	t.Parallel()
	for _, role := range []bcp.Role{bcp.RoleReader, bcp.RoleController} {
		r := start(t, conformance.Config{Role: role, Patience: short})
		o := connect(t, r, map[bcp.Role]string{bcp.RoleReader: "takes no list", bcp.RoleController: "takes nothing"}[role])
		if role == bcp.RoleReader {
			o.reader()
		} else {
			o.controller()
		}
		report := r.Check(t.Context())
		failIf(t, len(report.Failed()) != len(conformance.Rules(role)) || report.OK(), "%+v", report)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		o.nc.Close()
		if report := r.Check(over); report.OK() {
			t.Error("nobody is there, and all is well")
		}
	}
	failIf(t, (conformance.Report{}).OK() || conformance.Rules(bcp.RoleApprover) != nil || (conformance.Check{}).Result != conformance.Failed,
		"the zero values pass")
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []conformance.Config{
		{}, {Role: bcp.RoleAuditor}, {Role: bcp.RoleReader, Agent: "conformance"}, {Role: bcp.RoleReader, Agent: "A"},
		{Role: bcp.RoleReader, Categories: []bcp.Category{4}}, {Role: bcp.RoleReader, Patience: -1}, {Role: bcp.RoleReader, Listen: "0.0.0.0:0"},
	} {
		c.State = t.TempDir()
		if r, err := conformance.Start(t.Context(), c); err == nil {
			t.Errorf("%+v was taken", c)
			_ = r.Stop(t.Context())
		}
	}
}
