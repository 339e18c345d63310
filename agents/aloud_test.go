package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// beAloud is a Reader that does everything wrong, until its stdin ends.
func beAloud(url string) {
	o := agents.Options{Name: researcher, NATS: []nats.Option{nats.UserInfo("u", "p")}}
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	c, err := agents.Connect(ctx, url, agents.Credentials{}, o)
	check(err)
	r := agents.NewReader(c)
	r.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		if strings.HasPrefix(string(q.QueryID), "bad") {
			return nil, errors.New("the model said \x1b[2J\u202e and no more" + strings.Repeat("!", 1000))
		}
		return urgent, nil
	})
	check(r.Start(ctx))
	for range 3 {
		if _, err := r.Push(ctx, main, "mail", urgent, agents.PushOptions{}); err == nil {
			panic("the push was not refused")
		}
	}
	for _, subject := range []string{"forbidden", "forbidden", subjects.Reply(bcp.RoleReader, "other", "q1", 0), subjects.Reply(bcp.RoleReader, "other", "q2", 0)} {
		check(c.NATS().Publish(subject, nil))
	}
	check(c.NATS().Flush())
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	c.Close()
}

// An author who gave no logger hears on stderr, once for each reason and with what to
// do, which answers and pushes were refused, which handlers fail, and what the server
// denies; nothing that was read acts on a terminal.
//
// covers P7.6, P2.5
func TestAuthorHearsOnStderr(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{subjects.RepliesOf(bcp.RoleReader, researcher), subjects.Push(researcher, main, "mail")}},
		}}, {Username: "gateway", Password: "p"}}
	})
	g := startGateway(t, strings.Replace(s.ClientURL(), "nats://", "nats://gateway:p@", 1), bcp.JSON)
	pushes := g.listen(subjects.All(subjects.KindPush))
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	self := must(os.Executable())
	agent := exec.Command(self, "aloud", s.ClientURL())
	var stderr bytes.Buffer
	agent.Stderr = &stderr
	stdin := must(agent.StdinPipe())
	stdout := must(agent.StdoutPipe())
	noError(t, agent.Start())
	refused := bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: "mail", Status: bcp.StatusRefused, Code: bcp.ValidationFailed, Detail: "urgent: is missing"}
	for range 3 {
		g.respond(next(t, pushes, "the push"), refused)
	}
	if said, err := io.ReadAll(io.LimitReader(stdout, int64(len("ready\n")))); string(said) != "ready\n" {
		t.Fatalf("the agent said %q, %v: %s", said, err, stderr.String())
	}
	g.query("bad1", 0)
	g.query("bad2", 0)
	for i, detail := range []string{"urgent: is missing", "urgent: is missing", "urgent: is of another type \x1b]0;"} {
		g.query(bcp.QueryID(fmt.Sprint("q", i)), 0)
		for m := next(t, replies, "the answer"); len(m.Data) == 0; m = next(t, replies, "the answer") {
		}
		refused.SubscriptionID, refused.QueryID, refused.Detail = "", bcp.QueryID(fmt.Sprint("q", i)), detail
		reply := subjects.Reply(bcp.RoleReader, researcher, bcp.DeliveryID(fmt.Sprint("r", i)), 0)
		g.send(subjects.Deliver(bcp.RoleReader, researcher, main), reply, refused)
		next(t, replies, "the receipt")
	}
	noError(t, stdin.Close())
	if err := agent.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
	lines := strings.SplitAfter(stderr.String(), "\n")
	lines = lines[:len(lines)-1]
	for text, want := range map[string]int{
		`an answer was refused: agent=researcher code="validation_failed" detail="urgent: is missing" do="correct the answer"`:                 1,
		`an answer was refused: agent=researcher code="validation_failed" detail="urgent: is of another type \x1b]0;" do="correct the answer"`: 1,
		`a push was refused: agent=researcher code="validation_failed" detail="urgent: is missing"`:                                            1,
		`a handler failed: agent=researcher of=query panicked=false error="the model said \x1b[2J\u202e and no more!`:                          1,
		`the server denied a subject`: 2,
	} {
		if n := strings.Count(stderr.String(), text); n != want {
			t.Errorf("%q: %d times, want %d, in\n%s", text, n, want, stderr.String())
		}
	}
	failIf(t, len(lines) != 6, "it said %d lines: %q", len(lines), lines)
	for _, line := range lines {
		failIf(t, strings.ContainsAny(line, "\x1b\u202e") || len(line) > 1000, "a line acts, or has no end: %q", line)
	}
}

// A Reader that gets a query and has nothing to answer it says so, once.
//
// covers P9.5
func TestReaderWithoutHandlerSaysSo(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	log := &lockedText{}
	reader(t, s.ClientURL(), agents.Options{Logger: hclog.New(&hclog.LoggerOptions{Output: log})}, nil, nil)
	g.query("q1", 0)
	g.query("q2", 0)
	replies := g.listen(subjects.RepliesOf(bcp.RoleReader, researcher))
	g.result(replies, bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q0", Success: true, Status: bcp.StatusDelivered})
	text := log.String()
	failIf(t, strings.Count(text, "set OnQuery") != 1, "the log has\n%s", text)
}
