package mesh_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// watchedMesh is a mesh with everything that tells of it: its log, metrics, traces.
type watchedMesh struct {
	*meshtest.Mesh
	metrics  *telemetry.Metrics
	exporter *telemetry.Exporter

	mu     sync.Mutex
	traces []byte
}

func watched(t *testing.T, files map[string]string, change func(*mesh.Config)) *watchedMesh {
	t.Helper()
	w := &watchedMesh{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.traces = append(w.traces, body...)
	}))
	t.Cleanup(collector.Close)
	w.Mesh = meshtest.Prepare(t, files, change, func(c *mesh.Config) {
		note := c.OnDecision
		c.OnDecision = func(d *bcp.Decision) { w.metrics.Observe(d); w.exporter.Observe(d); note(d) }
	})
	w.metrics = telemetry.New(w.Definition)
	w.exporter = must(telemetry.Export(telemetry.ExportConfig{Endpoint: collector.URL + telemetry.TracesPath, Definition: w.Definition}))
	t.Cleanup(func() { w.sent() })
	w.Start(t)
	return w
}

// sent ends the traces and returns all of them.
func (w *watchedMesh) sent() []byte {
	w.exporter.Stop(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.traces
}

// speaks has a client say other things of itself than its library does.
type speaks struct {
	language, version string
	conn              net.Conn
}

func (s *speaks) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).Dial(network, address)
	s.conn = conn
	return &speaker{conn, s}, err
}

type speaker struct {
	net.Conn
	as *speaks
}

var itsVersion = regexp.MustCompile(`"lang":"go","version":"[^"]*"`)

func (s *speaker) Write(b []byte) (int, error) {
	other := itsVersion.ReplaceAll(b, fmt.Appendf(nil, `"lang":%q,"version":%q`, s.as.language, s.as.version))
	_, err := s.Conn.Write(other)
	return len(b), err
}

// A word of its own is in everything that an agent or a person can choose. Where each
// is found, of all that the mesh writes, is what SECURITY.md says; and once it is
// erased, only what that calls written for the audit is left.
//
// covers P2.5, P11.4, P11.5, A-SPOOF, A-METRIC
func TestWhatAgentsChooseIsKeptAsSECURITYSays(t *testing.T) {
	t.Parallel()
	c := &clock{}
	c.set(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	files := with(pair(100000, "max_retries: 20"), "mesh.yaml", "approvers: [ann]\nmax_refusals: 100/m\n")
	files["noisy.md"] = agentFile("noisy", "", reads("main"))
	word, chosen := canaries()
	files["script.md"] = agentFile("script", fmt.Sprintf("command: [sh, -c, \"echo %s; exec sleep 600\"]\nsandbox: none\n", word("output of commands")), reads("main"))
	files["main.md"] = agentFile("main", "", controls("mailer", 100000, "max_retries: 20\n"+alerts), controls("noisy", 1000, alerts), controls("script", 1000, alerts))
	folder := t.TempDir()
	m := watched(t, files, func(config *mesh.Config) {
		config.Now, config.Folder, config.Environ = c.now, folder, os.Environ()
	})

	// How it connects.
	name, language, version := word("client names, languages and versions"), word("client names, languages and versions"), word("client names, languages and versions")
	dialer := &speaks{language: language, version: version}
	if conn, err := nats.Connect(m.URL(), nats.UserInfo(word("user names and passwords that the server refuses"), word("user names and passwords that the server refuses")), nats.Name(word("client names, languages and versions"))); err == nil {
		conn.Close()
		t.Fatal("a stranger is let in")
	}
	main := controller(t, m.Mesh, "main")
	mailer := side{Agent: m.Connect(t, "mailer", bcp.RoleReader, nats.Name(name), nats.SetCustomDialer(dialer)), seen: map[string]bool{}}
	mailer.queries, mailer.told = mailer.Queries(t), mailer.Deliveries(t)
	ann := approver(t, m.Mesh, "ann")
	_, err := mailer.QueueSubscribeSync(subjects.InboxPrefix("mailer")+".x", word("queue groups, subscription ids of NATS, reply subjects"))
	noError(t, err)
	mailer.Sync(t)
	_, err = fmt.Fprintf(dialer.conn, "SUB %s.%s %s\r\n", subjects.InboxPrefix("mailer"), word("queue groups, subscription ids of NATS, reply subjects"), word("queue groups, subscription ids of NATS, reply subjects"))
	noError(t, err)
	say := func(from *meshtest.Agent, subject, text string) {
		t.Helper()
		header := nats.Header{word("headers"): {word("headers")}, "Nats-Msg-Id": {word("headers")}}
		reply := subjects.InboxPrefix(from.Name) + "." + word("queue groups, subscription ids of NATS, reply subjects")
		noError(t, from.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(text)}))
		from.Sync(t)
	}
	mailer.Acknowledge(t, mailer.told.NextOf(t, meshtest.With("type", "bcp_subscriptions_active")))
	say(mailer.Agent, "bcp.v1.push.mailer.main."+word("subjects that the server denies"), word("messages that nobody reads: on a denied subject, beyond max_refusals"))
	mailer.Listen(t, word("subjects that the server denies"))

	// What a Controller says.
	main.Accepted(t, "mailer", withID(fmt.Sprintf(`{"category":2,"questions":[{"id":%q,"question":"Was it %s?","max_words":3,"expected_format":"short_text"}]}`,
		word("specs of queries: names, questions, values"), word("specs of queries: names, questions, values")), "request_id", word("ids of messages: request_id, push_id")))
	wrongly := mailer.queries.Next(t)
	main.Accepted(t, "mailer", fmt.Sprintf(`{"category":1,"fields":[{"name":"it_is","type":"enum","values":[%q,"b"]}]}`, word("specs of queries: names, questions, values")))
	mailer.queries.Next(t)
	main.Ask(t, "mailer", withID(strings.Replace(askSum, "letter wants", word("justifications")+" says", 1), "request_id", word("ids of messages: request_id, push_id")))
	main.Ask(t, "mailer", fmt.Sprintf(`{"category":1,"fields":[{"name":%[1]q,"type":"boolean"},{"name":%[1]q,"type":"boolean"}]}`, word("messages that are refused, whatever is in them")))
	main.Ask(t, "mailer", fmt.Sprintf(`{"category":1,%q:%q}`, word("messages that are refused, whatever is in them"), word("messages that are refused, whatever is in them")))
	main.Request(t, subjects.Session("main"), fmt.Sprintf(`{"verb":"open","request_id":%q}`, word("request_id of a session message")))
	main.Request(t, subjects.Session("main"), fmt.Sprintf(`{"verb":%q}`, word("messages that are refused, whatever is in them")))
	main.Request(t, subjects.Session("main"), fmt.Sprintf(`{"verb":"taint","taint":{"source":%q}}`, word("messages that are refused, whatever is in them")))
	proposal := `{"verb":"propose","proposal":{"reader":%q,"subscription":{"id":%q,"category":1,"fields":[{"name":%q,"type":"boolean"}]}}}`
	main.Request(t, subjects.Session("main"), fmt.Sprintf(proposal, "mailer", word("proposals"), word("proposals")))
	main.Request(t, subjects.Session("main"), fmt.Sprintf(proposal, word("messages that are refused, whatever is in them"), "other", "any"))
	say(main.Agent, subjects.Ask("main", "mailer"), word("messages that are refused, whatever is in them"))

	// What a Reader says.
	say(mailer.Agent, wrongly.Reply, fmt.Sprintf(`{"type":"bcp_response","query_id":%q,"response":{%q:%q}}`, wrongly.Text("query_id"), word("messages that are refused, whatever is in them"), word("messages that are refused, whatever is in them")))
	mailer.Answer(t, mailer.queries.Next(t), fmt.Sprintf(`"response":{%q:"%s and far too many words"}`, chosen["specs of queries: names, questions, values"][0], word("messages that are refused, whatever is in them")))
	mailer.Push(t, "main", "alerts", fmt.Sprintf(`{"urgent":%q}`, word("messages that are refused, whatever is in them")), "")
	say(mailer.Agent, pushAlert, meshtest.PushText("main", bcp.SubscriptionID(word("messages that are refused, whatever is in them")), `{"urgent":true}`, ""))
	say(mailer.Agent, pushAlert, meshtest.PushText(bcp.AgentName(word("messages that are refused, whatever is in them")), "alerts", `{"urgent":true}`, ""))
	mailer.Push(t, "main", "alerts", `{"urgent":true}`, fmt.Sprintf(`,"push_id":%q`, word("ids of messages: request_id, push_id")))
	mailer.Push(t, "main", "notes", fmt.Sprintf(`{"note":%q}`, word("answers and pushes that are let through")), "")
	m.Settle(t)
	for _, d := range main.told.Taken(t) {
		say(main.Agent, d.Reply, word("bodies of acknowledgements"))
	}
	noisy := reader(t, m.Mesh, "noisy")
	for range 100 {
		noisy.Push(t, "main", "alerts", `{"urgent":1}`, "")
	}
	r := noisy.Push(t, "main", "alerts", fmt.Sprintf(`{"urgent":%q}`, word("messages that nobody reads: on a denied subject, beyond max_refusals")), "")
	stopIf(t, r.Text("code") != "rate_limited", "%v", r.JSON)

	// What a person says.
	mailer.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	m.Settle(t)
	for _, it := range ann.items(t) {
		if it.Kind == bcp.ItemSummary {
			ann.decided(t, rejects(ann.view(t, it.ID), "Ask for "+word("reasons of people")+"."))
		}
	}
	held := "answers and pushes that are held, and their push_id"
	mailer.Push(t, "main", "digest", fmt.Sprintf(`{"summary":%q}`, word(held)), fmt.Sprintf(`,"push_id":%q`, word(held)))

	for _, act := range []string{"publish", "subscribe"} {
		m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindViolation && d.Event == act })
	}
	until(t, "the output of the command", func() bool { return strings.Contains(m.Log(), chosen["output of commands"][0]) })
	table := keptTable(t)
	told := m.told(t)
	m.Stop(t)
	found := m.search(t, told)
	for row, texts := range chosen {
		want, ok := table[row]
		holds(t, ok, "SECURITY.md says nothing of: %s", row)
		for _, text := range texts {
			expect(t, found.kept(text), want, "%s, %s: where it is kept, as SECURITY.md says", row, text)
		}
	}
	for row := range table {
		holds(t, chosen[row] != nil, "SECURITY.md has a row that nothing is sent for: %s", row)
	}

	// What is not needed any more is erased.
	m.Start(t)
	main, mailer = connect(t, m.Mesh)
	main.Request(t, subjects.Session("main"), `{"verb":"close"}`)
	for range 4 {
		c.forward(20 * time.Hour)
		m.Settle(t)
		for _, who := range []side{main, mailer} {
			for _, d := range who.told.Taken(t) {
				who.Acknowledge(t, d)
			}
		}
	}
	m.Settle(t)
	operator := m.Connect(t, bcp.Operator, bcp.RoleOperator)
	for _, channel := range []string{`"controller":"main","reader":"mailer",`, `"controller":"main","reader":"noisy",`, ""} {
		r := operator.Request(t, subjects.Control(bcp.ControlErase), `{"erase":{`+channel+`"before":"2026-03-12","raw":true}}`)
		stopIf(t, r.Fields["keys"] == nil || r.Fields["failed"] != nil || r.Fields["reasons"] != nil, "erasing: %s", r.JSON)
	}
	told = m.told(t)
	m.Stop(t)
	found = m.search(t, told)
	for row, texts := range chosen {
		left := keptPlaces{}
		for _, place := range table[row].clear() {
			if place != "snapshots" {
				left = append(left, place)
			}
		}
		for _, text := range texts {
			got, want := found.kept(text), newKept(nil, left)
			failIf(t, got != want, "%s, %s: once erased it is kept as %q, not %q", row, text, got, want)
		}
	}
	if traces := m.sent(); len(traces) == 0 || bytes.Contains(traces, []byte("kanarie")) {
		t.Errorf("%d bytes of traces, and a word is in them: %t", len(traces), bytes.Contains(traces, []byte("kanarie")))
	}
}

// A passphrase covers the private keys of a state folder, and nothing of what was said:
// that is under sealing keys that lie beside the journal.
// docs/operators.md says so.
//
// covers P7.5, P11.5
func TestPassphraseCoversKeysAlone(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	main, _ := connect(t, m)
	main.Accepted(t, "mailer", strings.Replace(askWho, "Who wrote?", "Was it kanarienvogel?", 1))
	asked := m.Wait(t, meshtest.Of(bcp.KindAsk))
	m.Settle(t)
	m.Stop(t)
	var private [][]byte
	for _, name := range filesWith(t, m.State, nil) {
		content := must(os.ReadFile(name))
		private = append(private, regexp.MustCompile(`\bS[OAUCNX][A-Z2-7]{56}\b|PRIVATE.KEY.*`).FindAll(content, -1)...)
	}
	store := must(accounts.Open(m.State))
	noError(t, store.Seal([]byte("correct horse battery staple")))
	for _, key := range private {
		found := filesWith(t, m.State, key)
		failIf(t, len(found) > 0, "a private key is in %v", found)
	}
	holds(t, len(private) >= 5, "%d private keys were found before", len(private))
	found := filesWith(t, m.State, []byte("kanarienvogel"))
	failIf(t, len(found) > 0, "what was said is in %v", found)
	secrets, opener := 0, accounts.Passphrase(func() ([]byte, error) { return []byte("correct horse battery staple"), nil })
	noError(t, readSealed(t.Context(), m.State, m.Definition, func(_ jetstream.Records, keys *jetstream.SealingKeys) error {
		for _, sealed := range []subjects.Sealed{subjects.SealedPayload, subjects.SealedRaw} {
			given, err := keys.Give(t.Context(), subjects.Key("main", "mailer", sealed, asked.At().Format(time.DateOnly)))
			if err != nil {
				return err
			}
			found := filesWith(t, filepath.Join(m.State, "jetstream"), given.Key)
			secrets += len(given.Key) / 32 * len(found)
		}
		return nil
	}, opener))
	expect(t, secrets, 2, "sealing keys lie open, of 2: say so in docs/operators.md")

	if runtime.GOOS != "linux" {
		return // it starts no command from a sealed folder
	}
	// Those of a command are nowhere in the folder either.
	state := m.State
	m = meshtest.Prepare(t, map[string]string{
		"main.md":   agentFile("main", "", controls("mailer", 1000)),
		"mailer.md": agentFile("mailer", "sandbox: none\ncommand: [sleep, '600']\n", reads("main")),
	}, func(c *mesh.Config) {
		c.Keys, c.Folder, c.Environ = []accounts.OpenOption{opener}, t.TempDir(), os.Environ()
	})
	m.State = state
	m.Start(t)
	m.Wait(t, meshtest.Of(bcp.KindProcess))
	place := must(os.ReadFile(filepath.Join(state, "run", "in-memory")))
	creds, err := os.ReadFile(filepath.Join(string(place), "mailer", "reader.creds"))
	seed := regexp.MustCompile(`\bSU[A-Z2-7]{56}\b`).Find(creds)
	stopIf(t, err != nil || seed == nil, "the command got no credentials: %v", err)
	found = filesWith(t, state, seed)
	failIf(t, len(found) > 0, "the credentials of a command are in %v", found)
}

// canaries makes a word for a row of the table, another one each time.
func canaries() (word func(row string) string, all map[string][]string) {
	all = map[string][]string{}
	made := 0
	return func(row string) string {
		text := "kanarie" + string([]byte{'a' + byte(made/676%26), 'a' + byte(made/26%26), 'a' + byte(made%26)}) + "q"
		made++
		all[row] = append(all[row], text)
		return text
	}, all
}

// keptPlaces are places, sorted.
type keptPlaces []string

// kept says how something is kept: sealed in the journal, and in the clear.
type kept struct{ sealed, open string }

func newKept(sealed, open keptPlaces) kept {
	join := func(places keptPlaces) string {
		slices.Sort(places)
		return strings.Join(slices.Compact(places), ", ")
	}
	return kept{join(sealed), join(open)}
}

func (k kept) clear() keptPlaces {
	if k.open == "" {
		return nil
	}
	return strings.Split(k.open, ", ")
}

// keptTable is the table of SECURITY.md, by its first column.
func keptTable(t *testing.T) map[string]kept {
	t.Helper()
	text := must(os.ReadFile(filepath.Join("..", "SECURITY.md")))
	_, section, ok := strings.Cut(string(text), "\n| what is chosen |")
	stopIf(t, !ok, "SECURITY.md has no table of what is chosen")
	table := map[string]kept{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "|") && len(table) > 0 {
			break
		}
		if len(cells) != 3 || strings.HasPrefix(line, "|--") {
			continue
		}
		places := func(cell string) keptPlaces {
			if cell == "nowhere" {
				return nil
			}
			return strings.Split(cell, ", ")
		}
		table[strings.ReplaceAll(cells[0], "`", "")] = newKept(places(cells[1]), places(cells[2]))
	}
	return table
}

// told is what a mesh that runs tells: its log and metrics, by name.
func (m *watchedMesh) told(t *testing.T) map[string][]byte {
	t.Helper()
	m.Settle(t)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, telemetry.MetricsPath, nil)
	r.Host = "127.0.0.1:9464"
	telemetry.Handler("", m.metrics, m.Mesh).ServeHTTP(w, r)
	stopIf(t, w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "bcpmesh_agent_events_total"), "metrics: %d", w.Code)
	return map[string][]byte{"log": []byte(m.Log()), "metrics": w.Body.Bytes()}
}

// findings is all that a mesh wrote, in the clear by its place, and what it sealed.
type findings struct {
	open    map[string][]byte
	records []state.Recorded
}

// kept says where a text is.
func (f *findings) kept(text string) kept {
	var sealed, open keptPlaces
	for place, content := range f.open {
		if bytes.Contains(content, []byte(text)) {
			open = append(open, place)
		}
	}
	open = f.following(open)
	for i := range f.records {
		rec := &f.records[i]
		if bytes.Contains(rec.Message, []byte(text)) {
			sealed = append(sealed, "message")
		}
		if p := &rec.Decision.Private; strings.Contains(fmt.Sprintf("%s %s %s %s", p.Client, p.QueryField, p.Spec, p.Payload), text) {
			sealed = append(sealed, "content")
		}
	}
	return newKept(sealed, open)
}

// following leaves out what follows: what is in the journal is in exports, and with
// what is in snapshots in backups.
func (f *findings) following(open keptPlaces) keptPlaces {
	in := func(place string) bool { return slices.Contains(open, place) }
	journal, either := in("journal"), in("journal") || in("snapshots")
	return slices.DeleteFunc(slices.Clone(open), func(place string) bool {
		return place == "exports" && journal || place == "backups" && either
	})
}

// search collects all that a mesh that rests has written, and what it told: its state
// folder, an export and a backup, unpacked.
func (m *watchedMesh) search(t *testing.T, told map[string][]byte) *findings {
	t.Helper()
	f := &findings{open: told}
	noError(t, filepath.WalkDir(m.State, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		parts := strings.Split(strings.TrimPrefix(name, m.State+"/"), "/")
		place := parts[0]
		if at := slices.Index(parts, "streams"); at >= 0 {
			place = map[string]string{jetstream.CommitStream: "journal", jetstream.AuditStream: "audit"}[parts[at+1]]
			if place == "" {
				place = parts[at+1]
			}
		}
		f.open[place] = append(f.open[place], content...)
		return err
	}))
	key := must(mesh.CheckpointKey(m.State))
	var export, backup bytes.Buffer
	noError(t, readSealed(t.Context(), m.State, m.Definition, func(records jetstream.Records, keys *jetstream.SealingKeys) error {
		if _, err := jetstream.Export(t.Context(), &export, records, jetstream.ExportOptions{Key: key, Tree: mesh.Tree(m.State)}); err != nil {
			return err
		}
		return records(t.Context(), 0, 0, func(r jetstream.Record) error {
			for _, b := range r.Decisions {
				rec, err := keys.Recorded(t.Context(), b)
				if err != nil {
					return err
				}
				f.records = append(f.records, rec)
			}
			return nil
		})
	}))
	f.open["exports"] = unpackedExport(t, export.Bytes())
	must(backUp(t.Context(), m.State, m.Definition, &backup, mesh.BackupOptions{Version: "test"}))
	unpacked, err := gzip.NewReader(&backup)
	if err == nil {
		f.open["backups"], err = io.ReadAll(unpacked)
	}
	noError(t, err)
	return f
}

// unpackedExport is an export with its blocks unpacked (docs/audit-format.md).
func unpackedExport(t *testing.T, export []byte) (text []byte) {
	t.Helper()
	unpack := must(zstd.NewReader(nil))
	defer unpack.Close()
	blocks := 0
	for rest := export[16:]; len(rest) > 0; {
		size := int(binary.BigEndian.Uint32(rest[1:]))
		payload := rest[5 : 5+size]
		if text = append(text, payload...); rest[0] == 'D' {
			blocks++
			text = must(unpack.DecodeAll(payload[4:], text))
		}
		rest = rest[5+size+4:]
	}
	stopIf(t, blocks == 0, "the export is empty")
	return text
}
