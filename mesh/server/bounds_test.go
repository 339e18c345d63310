package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// rawClient is a client of a way that says what it likes.
type rawClient struct {
	net.Conn
	t    *testing.T
	way  way
	seen bytes.Buffer
}

// dial comes as far as the protocol of NATS.
func (b *bench) dial() *rawClient {
	b.t.Helper()
	_, address, _ := strings.Cut(b.URL(), "://")
	conn := must(net.Dial("tcp", address))
	c := &rawClient{Conn: conn, t: b.t, way: b.way}
	b.t.Cleanup(func() { conn.Close() })
	noError(b.t, conn.SetDeadline(time.Now().Add(2*patience)))
	if b.way.sealed {
		c.heard("INFO ")
		c.Conn = tls.Client(conn, &tls.Config{RootCAs: rootsOf(b.t, b.state), ServerName: "127.0.0.1"})
	}
	return c
}

// say sends text of the protocol.
func (c *rawClient) say(text string) {
	c.t.Helper()
	must(c.Write([]byte(text)))
}

// heard waits for a line that contains text, and returns all lines so far.
func (c *rawClient) heard(text string) string {
	c.t.Helper()
	b := make([]byte, 1)
	for !strings.Contains(c.seen.String(), text) || !bytes.HasSuffix(c.seen.Bytes(), []byte("\n")) {
		if _, err := c.Read(b); err != nil {
			c.t.Fatalf("no %q in %q: %v", text, &c.seen, err)
		}
		c.seen.Write(b)
	}
	return c.seen.String()
}

// ends waits until the other side has closed the connection, and returns what it
// said before.
func (c *rawClient) ends() string {
	c.t.Helper()
	var timeout net.Error
	text, err := io.ReadAll(c)
	failIf(c.t, errors.As(err, &timeout) && timeout.Timeout(), "it goes on")
	return string(text)
}

// login shows creds, and hears that they are good.
func (c *rawClient) login(b *bench, agent bcp.AgentName, role bcp.Role) {
	c.t.Helper()
	c.show(b, agent, role)
	c.say("PING\r\n")
	c.heard("PONG")
}

// show shows creds, and says of itself what is to be in no log.
func (c *rawClient) show(b *bench, agent bcp.AgentName, role bcp.Role) {
	c.t.Helper()
	text := b.issue(agent, role).Text()
	user := must(jwt.ParseDecoratedUserNKey(text))
	nonce := regexp.MustCompile(`"nonce":"([^"]+)"`).FindStringSubmatch(c.heard("INFO "))
	if nonce == nil {
		c.t.Fatalf("no nonce in %q", &c.seen)
	}
	connect := must(json.Marshal(map[string]any{
		"jwt": must(jwt.ParseDecoratedJWT(text)), "sig": base64.RawURLEncoding.EncodeToString(must(user.Sign([]byte(nonce[1])))),
		"protocol": 1, "verbose": false, "pedantic": false, "headers": true, "name": "CANARY %s", "lang": "CANARY", "version": "CANARY",
	}))
	c.say(fmt.Sprintf("CONNECT %s\r\n", connect))
}

// A client that takes its time is not asked whether it is there before it has heard that
// it was let in: stock clients take that for a refusal.
//
// covers A-RECONN
func TestSlowClientIsLetIn(t *testing.T) {
	t.Parallel()
	b := start(t)
	c := b.dial()
	c.show(b, "main", bcp.RoleController)
	time.Sleep(2500 * time.Millisecond) // the server's first question comes after 2.4 s at most
	c.say("PING\r\n")
	told := c.heard("PONG")
	failIf(t, strings.Contains(told, "PING"), "it is told %q", told)
}

// covers A-SLOW, A-FLOODRESP, A-JWTSELF, BCP-19
func TestBoundsHoldOnEachWay(t *testing.T) {
	everyWay(t, func(t *testing.T, w way) {
		b := start(t, w)
		subject := subjects.Session("main")
		if scheme, _, _ := strings.Cut(b.URL(), "://"); scheme != w.String() {
			t.Errorf("%s is at %s", w, b.URL())
		}
		arrived := listen(t, b.gateway(), subject)
		publish := func(c *rawClient, size int) {
			c.say(fmt.Sprintf("PUB %s %d\r\n%s\r\nPING\r\n", subject, size, strings.Repeat("x", size)))
		}
		clients := map[string]func(*testing.T, *rawClient){
			"no creds": func(t *testing.T, c *rawClient) {
				c.heard("INFO ")
				c.ends()
			},
			"not a word": func(t *testing.T, c *rawClient) { c.ends() },
			"the largest message": func(t *testing.T, c *rawClient) {
				c.login(b, "main", bcp.RoleController)
				c.seen.Reset()
				publish(c, 1<<20)
				c.heard("PONG")
			},
			"a larger message": func(t *testing.T, c *rawClient) {
				c.login(b, "main", bcp.RoleController)
				c.say(fmt.Sprintf("PUB %s %d\r\n", subject, 1<<20+1))
				c.heard("Maximum Payload")
				c.ends()
			},
			"more subscriptions than its scope has": func(t *testing.T, c *rawClient) {
				c.login(b, "main", bcp.RoleController)
				for i := range 129 {
					c.say(fmt.Sprintf("SUB %s.x%d %d\r\n", subjects.InboxPrefix("main"), i, i+1))
				}
				c.heard("maximum subscriptions exceeded")
			},
		}
		t.Run("clients", func(t *testing.T) {
			for name, test := range clients {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := b.dial()
					c.t = t
					test(t, c)
				})
			}
		})
		got := arrived()
		failIf(t, len(got) != 1 || len(got[0].Data) != 1<<20, "%d messages arrived", len(got))
	})
}
