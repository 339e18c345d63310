package redteam

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// hijacked are the agents whose creds an attacker may have.
var hijacked = []struct {
	name bcp.AgentName
	role bcp.Role
}{{mailer, bcp.RoleReader}, {packer, bcp.RoleReader}, {main, bcp.RoleController}}

// subscribes holds a client to being refused subjects to listen to.
func (s *Client) subscribes(list ...string) {
	for _, subject := range list {
		if err := s.Refused(subject, func() error {
			sub, err := s.conn.SubscribeSync(subject)
			if err == nil {
				defer func() { _ = sub.Unsubscribe() }() // a refused subscription is already gone
				err = s.conn.FlushTimeout(patience)
			}
			return err
		}); err != nil {
			s.rig.Broken("%s as %s listens to %s: %v", s.name, s.role, subject, err)
			return
		}
		if !s.conn.IsConnected() {
			return
		}
	}
}

// publishes holds a client to being refused subjects to publish to.
func (s *Client) publishes(list ...string) {
	for _, subject := range list {
		if err := s.Refused(subject, func() error { return s.conn.Publish(subject, []byte("{}")) }); err != nil {
			s.rig.Broken("%s as %s publishes to %s: %v", s.name, s.role, subject, err)
			return
		}
		if !s.conn.IsConnected() {
			return
		}
	}
}

// streamNames are those of the mesh, as docs/operators.md lists them.
var streamNames = []string{"BCP_COMMIT", "BCP_AUDIT", "BCP_LEDGER", "KV_BCP_KEYS"}

func transports() []Attack {
	return []Attack{
		{ID: "A-WILD", Class: ClassTransport, Text: "listens to wildcards", Property: "the server refuses each", Run: func(r *Rig) {
			for _, who := range hijacked {
				r.Client(who.name, who.role).subscribes(">", "*", "*.>", "bcp.>", "bcp.v1.>", "bcp.*.*.*", "bcp.v1.query.>", "bcp.v1.deliver.>", "bcp.v1.audit.>", "bcp.v1.ledger.>", "_INBOX.>", "_INBOX_*.>", "_R_.>", "$SYS.>", "$JS.>", "$KV.>", "bcp.v1.ask.>", "bcp.v1.reply.>", "bcp.v1.commit.>")
			}
		}},
		{ID: "A-OTHER", Class: ClassTransport, Text: "listens to what others get", Property: "the server refuses each", Run: func(r *Rig) {
			for _, who := range hijacked {
				r.Client(who.name, who.role).subscribes(subjects.QueriesOf(clerk), subjects.DeliveriesOf(bcp.RoleController, boss), subjects.DeliveriesOf(bcp.RoleReader, clerk), subjects.InboxesOf(boss), subjects.InboxesOf(clerk), subjects.Alerts(), subjects.ApprovalsOf(ann), subjects.AsksOf(boss), subjects.PushesOf(clerk), subjects.RepliesOf(bcp.RoleReader, clerk))
			}
			r.Client(mailer, bcp.RoleReader).subscribes(subjects.DeliveriesOf(bcp.RoleController, main), subjects.AsksOf(main), subjects.InboxesOf(main))
			r.Client(main, bcp.RoleController).subscribes(subjects.QueriesOf(mailer), subjects.PushesOf(mailer), subjects.DeliveriesOf(bcp.RoleReader, mailer))
		}},
		{ID: "A-PUB", Class: ClassTransport, Text: "publishes as the gateway, as others and as people", Property: "the server refuses each", Run: func(r *Rig) {
			forged := []string{
				subjects.Deliver(bcp.RoleController, main, mailer), subjects.Deliver(bcp.RoleController, main, "gateway"), subjects.Query(mailer, main), subjects.Query(clerk, boss),
				subjects.Ask(boss, clerk), subjects.Session(boss), subjects.Push(clerk, boss, "alerts"), subjects.Alert("budget_threshold"), subjects.Control("reload"),
				subjects.Approval(ann, subjects.VerbApprove), subjects.Audit(main, mailer, "accepted"), subjects.Ledger(main, mailer), subjects.Commit(), subjects.InboxPrefix(main) + ".x", "_INBOX.x", "bcp.v1", "bcp.v2.ask.main.mailer",
			}
			r.Client(mailer, bcp.RoleReader).publishes(append(forged, subjects.Ask(main, mailer), subjects.Session(main), subjects.Push(mailer, main, "none"), subjects.Push(mailer, boss, "alerts"), subjects.InboxPrefix(mailer)+".x")...)
			r.Client(main, bcp.RoleController).publishes(append(forged, subjects.Ask(main, clerk), subjects.Push(mailer, main, "alerts"), subjects.Push(packer, main, "alerts"))...)
		}},
		{ID: "A-REPLY", Class: ClassTransport, Text: "names somebody else's subject as where to reply", Property: "the gateway replies nowhere but to the sender", Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			r.Settle()
			before := len(controller.Heard(func(Message) bool { return true }))
			person := r.Client(ann, bcp.RoleApprover)
			person.Listen(subjects.Alerts())
			for _, reply := range []string{
				subjects.Deliver(bcp.RoleController, main, mailer), subjects.InboxPrefix(main) + ".x", subjects.Query(mailer, main), subjects.Commit(), subjects.Alert("budget_threshold"), "$JS.API.STREAM.PURGE.BCP_COMMIT", "$SYS.REQ.SERVER.PING",
				subjects.Ask(main, mailer), subjects.Control("reload"), "_INBOX.x", "bcp.v1.push.mailer.main.alerts", ">", "*", subjects.InboxPrefix(mailer) + ".>",
			} {
				msg := &nats.Msg{Subject: subjects.Push(mailer, main, "alerts"), Reply: reply, Data: []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":"no"}}`)}
				if hijacked.conn.PublishMsg(msg) == nil && hijacked.conn.IsConnected() {
					_ = hijacked.conn.FlushTimeout(patience) // the server may refuse by closing the connection
				}
				if !hijacked.conn.IsConnected() {
					hijacked = r.Client(mailer, bcp.RoleReader)
				}
			}
			r.Settle()
			if after := controller.Heard(func(Message) bool { return true }); len(after) > before {
				r.Broken("a Controller got %q on %s", after[before].Data, after[before].Subject)
			}
			if got := person.Heard(func(m Message) bool {
				return m.Text("type") != "bcp_alert" && subjects.Match(subjects.Alerts(), m.Subject)
			}); len(got) > 0 {
				r.Broken("a person got %q", got[0].Data)
			}
		}},
		{ID: "A-REPLYPEER", Class: ClassTransport, Text: "has the gateway's answers to it delivered to another agent of its role", Property: "nothing arrives there", Run: func(r *Rig) {
			others := []*Client{r.Client(clerk, bcp.RoleReader), r.Client(boss, bcp.RoleController), r.Client(packer, bcp.RoleReader)}
			r.Client(mailer, bcp.RoleReader)
			r.Client(main, bcp.RoleController)
			r.Settle()
			before := make([]int, len(others))
			for i, s := range others {
				before[i] = len(s.Heard(func(Message) bool { return true }))
			}
			say := func(name bcp.AgentName, role bcp.Role, subject, reply, text string, header nats.Header) {
				s := r.Client(name, role)
				if s.conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(text)}) == nil {
					_ = s.conn.FlushTimeout(patience) // it may be cut off
				}
			}
			push := `{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":true}}`
			for _, header := range []nats.Header{nil, {"X": {"y"}}} {
				for _, reply := range []string{subjects.Query(clerk, boss), subjects.Deliver(bcp.RoleReader, clerk, boss), subjects.InboxPrefix(clerk) + ".x", subjects.Query(packer, main)} {
					say(mailer, bcp.RoleReader, subjects.Push(mailer, main, "alerts"), reply, push, header)
				}
				for _, reply := range []string{subjects.Deliver(bcp.RoleController, boss, clerk), subjects.InboxPrefix(boss) + ".x"} {
					say(main, bcp.RoleController, subjects.Ask(main, mailer), reply, askUrgent, header)
					say(main, bcp.RoleController, subjects.Session(main), reply, `{"type":"bcp_session","verb":"channels"}`, header)
				}
			}
			r.Settle()
			for i, s := range others {
				for _, m := range s.Heard(func(Message) bool { return true })[before[i]:] {
					r.Broken("%s as %s got, on %s: %q", s.name, s.role, m.Subject, m.Data)
				}
			}
		}},
		{ID: "A-SUBJTOK", Class: ClassTransport, Text: "puts separators, wildcards and line breaks into subjects", Property: "refused; no line of the protocol is injected", Run: func(r *Rig) {
			for _, token := range []string{"a.b", "*", ">", " ", "", "\r\nPUB bcp.v1.deliver.controller.main.mailer 2\r\n{}", "\t", "é", "\x00", "$SYS", strings.Repeat("a", 600)} {
				s := r.Client(mailer, bcp.RoleReader)
				subject := "bcp.v1.push.mailer.main." + token
				if err := s.Refused("bcp.v1.push", func() error {
					if err := s.conn.Publish(subject, []byte("{}")); err != nil {
						return err
					}
					return s.conn.FlushTimeout(2 * time.Second)
				}); err != nil && strings.TrimSpace(token) != "" {
					r.Broken("a push on %q: %v", subject, err)
				}
			}
			r.Settle()
			if got := r.Client(main, bcp.RoleController).Heard(func(m Message) bool { return string(m.Data) == "{}" }); len(got) > 0 {
				r.Broken("a Controller got %q on %s", got[0].Data, got[0].Subject)
			}
		}},
		{ID: "A-JSAPI", Class: ClassTransport, Text: "reads, purges and makes streams and consumers", Property: "the server refuses each", Run: func(r *Rig) {
			var apis []string
			for _, stream := range streamNames {
				apis = append(apis, "$JS.API.STREAM.INFO."+stream, "$JS.API.STREAM.PURGE."+stream, "$JS.API.STREAM.DELETE."+stream, "$JS.API.STREAM.UPDATE."+stream,
					"$JS.API.STREAM.MSG.GET."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.CONSUMER.CREATE."+stream, "$JS.API.STREAM.MSG.DELETE."+stream, "$JS.API.STREAM.SNAPSHOT."+stream)
			}
			apis = append(apis, "$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.X", "$KV.BCP_KEYS.x", "BCPJS.STREAM.INFO.BCP_AUDIT", "BCPJS.DIRECT.GET.BCP_AUDIT")
			for _, who := range hijacked {
				r.Client(who.name, who.role).publishes(apis...)
			}
		}},
		{ID: "A-SYS", Class: ClassTransport, Text: "asks the server about itself and its clients", Property: "the server refuses each", Run: func(r *Rig) {
			for _, who := range hijacked {
				s := r.Client(who.name, who.role)
				s.subscribes("$SYS.>", "$SYS.ACCOUNT.*.CONNECT", "$SYS.SERVER.*.CLIENT.AUTH.ERR")
				s.publishes("$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.X.CONNZ", "$SYS.REQ.USER.INFO.X", "$SYS.REQ.SERVER.PING.CONNZ", "$SRV.PING", "$SRV.INFO")
			}
		}},
		{ID: "A-JWTSELF", Class: ClassTransport, Text: "signs its own, wider user JWT", Property: "the server refuses to connect", Run: func(r *Rig) {
			r.connectsForged(func(*jwt.UserClaims) {}, nil)
			r.connectsForged(func(c *jwt.UserClaims) {
				c.Permissions = jwt.Permissions{Pub: jwt.Permission{Allow: jwt.StringList{">"}}, Sub: jwt.Permission{Allow: jwt.StringList{">"}}}
			}, nil)
			r.connectsForged(func(c *jwt.UserClaims) { c.Expires = 0; c.BearerToken = true }, nil)
		}},
		{ID: "A-JWTEDIT", Class: ClassTransport, Text: "changes single bytes of its own JWT", Property: "the server refuses to connect", Run: func(r *Rig) {
			token, pair := r.ownCreds()
			for range 40 {
				changed := []byte(token)
				i := r.rand.IntN(len(changed))
				if changed[i] == '.' {
					continue
				}
				changed[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[r.rand.IntN(62)]
				if string(changed) == token || i == len(changed)-1 { // the last letter has unused bits
					continue
				}
				conn, err := nats.Connect(r.Mesh().URL(), nats.UserJWT(func() (string, error) { return string(changed), nil }, pair.Sign), nats.NoReconnect(), nats.Timeout(patience))
				if err == nil {
					conn.Close()
					r.Broken("a JWT with byte %d changed was accepted", i)
				}
			}
		}},
		{ID: "A-NONCE", Class: ClassTransport, Text: "replays the signature of another connection", Property: "the server refuses to connect", Run: func(r *Rig) {
			token, pair := r.ownCreds()
			var recorded []byte
			jwtOf := func() (string, error) { return token, nil }
			conn, err := nats.Connect(r.Mesh().URL(), nats.UserJWT(jwtOf, func(nonce []byte) (_ []byte, err error) {
				recorded, err = pair.Sign(nonce)
				return recorded, err
			}), nats.NoReconnect(), nats.Timeout(patience))
			if err != nil {
				r.abandon("its own creds: %v", err)
			}
			conn.Close()
			conn, err = nats.Connect(r.Mesh().URL(), nats.UserJWT(jwtOf, func([]byte) ([]byte, error) { return recorded, nil }), nats.NoReconnect(), nats.Timeout(patience))
			if err == nil {
				conn.Close()
				r.Broken("a recorded signature opened a second connection")
			}
		}},
		{ID: "A-NOAUTH", Class: ClassTransport, Text: "connects with no, empty or wrong credentials", Property: "the server refuses to connect", Run: func(r *Rig) {
			for name, option := range map[string]nats.Option{
				"none": nats.Name("x"), "password": nats.UserInfo("gateway", "gateway"), "token": nats.Token("x"), "empty JWT": nats.UserJWT(func() (string, error) { return "", nil }, func([]byte) ([]byte, error) { return nil, nil }),
			} {
				if conn, err := nats.Connect(r.Mesh().URL(), option, nats.NoReconnect(), nats.Timeout(patience)); err == nil {
					conn.Close()
					r.Broken("connected with: %s", name)
				}
			}
		}},
		{ID: "A-TRACE", Class: ClassTransport, Text: "asks the server to trace its messages, to learn of others or to have the trace delivered", Property: "no trace arrives anywhere", Run: func(r *Rig) {
			s := r.Client(mailer, bcp.RoleReader)
			r.Client(packer, bcp.RoleReader)
			for _, dest := range []string{subjects.Push(mailer, main, "notes"), subjects.Query(mailer, main), subjects.Query(packer, main), subjects.InboxPrefix(mailer) + ".t", subjects.Deliver(bcp.RoleController, main, mailer), subjects.InboxPrefix(main) + ".t"} {
				for _, only := range []string{"", "true"} {
					header := nats.Header{"Nats-Trace-Dest": {dest}}
					if only != "" {
						header.Set("Nats-Trace-Only", only)
					}
					if s.conn.PublishMsg(&nats.Msg{Subject: subjects.Push(mailer, main, "alerts"), Header: header, Data: []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":"no"}}`)}) != nil || s.conn.FlushTimeout(patience) != nil {
						s = r.Client(mailer, bcp.RoleReader)
					}
				}
			}
			r.Settle()
			for _, who := range hijacked {
				if got := r.Client(who.name, who.role).Heard(func(m Message) bool {
					return strings.Contains(string(m.Data), `"hops"`) || strings.Contains(string(m.Data), `"ingress"`) || strings.Contains(string(m.Data), `"acc"`)
				}); len(got) > 0 {
					r.Broken("%s got a trace: %s", who.name, got[0].Data)
				}
			}
		}},
		{ID: "A-PROTO", Class: ClassTransport, Text: "speaks broken protocol to the server's port", Property: "the connection ends, and others are served", Run: func(r *Rig) {
			at, err := url.Parse(r.Mesh().URL())
			if err != nil {
				r.abandon("%v", err)
			}
			for _, text := range []string{"\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT {\r\n", "CONNECT " + strings.Repeat("[", 4000) + "\r\n", "PUB bcp.v1.deliver.controller.main.mailer 2\r\n{}\r\n", "SUB > 1\r\n", "INFO {}\r\n", "HPUB x 99999999999 99999999999\r\n", "PING\r\n", strings.Repeat("A", 9000), "\x16\x03\x01\x02\x00"} {
				conn, err := net.DialTimeout("tcp", at.Host, patience)
				if err != nil {
					r.Broken("after broken protocol nobody is served: %v", err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
				reader := bufio.NewReader(conn)
				if _, err := reader.ReadString('\n'); err == nil { // the server speaks first
					_, _ = conn.Write([]byte(text))
					for line := ""; err == nil; line, err = reader.ReadString('\n') {
						if strings.HasPrefix(line, "MSG") || strings.HasPrefix(line, "+OK") {
							r.Broken("%q got %q without credentials", text, line)
						}
					}
				}
				_ = conn.Close()
			}
			if conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 2 * time.Second}, "tcp", at.Host, &tls.Config{MinVersion: tls.VersionTLS13}); err == nil {
				_ = conn.Close()
			}
		}},
		{ID: "A-BEHIND", Class: ClassTransport, Text: "looks on its machine for a port behind the entrance, and says there for whom it comes", Property: "nothing but the entrance lets it in, and nothing believes it", Run: (*Rig).aroundTheEntrance},
	}
}

// ownCreds returns the JWT and the key in the creds of a hijacked agent.
func (r *Rig) ownCreds() (token string, pair nkeys.KeyPair) {
	creds := r.Creds(mailer, bcp.RoleReader)
	token, err := jwt.ParseDecoratedJWT(creds)
	if err == nil {
		pair, err = jwt.ParseDecoratedNKey(creds)
	}
	if err != nil {
		r.abandon("its own creds: %v", err)
	}
	return token, pair
}

// connectsForged checks that the server refuses creds that an agent forged from
// its own.
func (r *Rig) connectsForged(change func(*jwt.UserClaims), signer nkeys.KeyPair) {
	token, own := r.ownCreds()
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		r.abandon("its own creds: %v", err)
	}
	if signer == nil {
		if signer, err = nkeys.CreateAccount(); err != nil {
			r.abandon("a key: %v", err)
		}
	}
	change(claims)
	forged, err := claims.Encode(signer)
	if err != nil {
		r.abandon("a JWT: %v", err)
	}
	conn, err := nats.Connect(r.Mesh().URL(), nats.UserJWT(func() (string, error) { return forged, nil }, own.Sign), nats.NoReconnect(), nats.Timeout(patience))
	if err == nil {
		conn.Close()
		r.Broken("a JWT that the agent signed itself was accepted: %s", fmt.Sprint(claims.Permissions))
	}
}
