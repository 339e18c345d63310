package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// watchFolder holds, in the state folder, a socket for each agent that a model runs.
const watchFolder = "watch"

// watchedLines is how far a watcher may lag. One that lags more is disconnected: it never
// holds the agent up.
const watchedLines = 256

// watchers tells the watchers of an agent what passes between its keeper and its cell. Each
// of them hears a transcript that begins with the configuration and the moment of coming.
type watchers struct {
	listener net.Listener // nil: nobody can watch

	mu            sync.Mutex
	configuration *stdio.Passage
	all           map[*watcher]bool
}

type watcher struct {
	conn   net.Conn
	lines  chan []byte
	to     *replay.Writer
	record func(stdio.Passage) error
	words  atomic.Bool // it asked for them
}

// askWords is what a watcher sends to hear words while they are spoken.
const askWords = "words\n"

// listen hears what the watcher asks for.
func (w *watcher) listen() {
	asked := make([]byte, len(askWords))
	if _, err := io.ReadFull(w.conn, asked); err == nil && string(asked) == askWords {
		w.words.Store(true)
	}
}

// Write queues a line.
func (w *watcher) Write(line []byte) (int, error) {
	select {
	case w.lines <- line:
		return len(line), nil
	default:
		return 0, errors.New("the watcher is too slow")
	}
}

// openWatch lets the owner of the state folder watch an agent. Several processes may run
// one; each has a socket of its own. Where there can be none the agent runs all the same.
func openWatch(state string, agent bcp.AgentName, log hclog.Logger) *watchers {
	w := &watchers{all: map[*watcher]bool{}}
	folder := filepath.Join(state, watchFolder)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		w.listener, err = net.Listen("unix", filepath.Join(folder, string(agent)+"."+strconv.Itoa(os.Getpid())))
	}
	if err != nil {
		log.Debug("the agent cannot be watched", "error", err)
		return w
	}
	go w.accept()
	return w
}

func (w *watchers) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return // it is closed
		}
		one := &watcher{conn: conn, lines: make(chan []byte, watchedLines)}
		go one.send()
		go one.listen()
		if one.to, err = replay.NewWriter(one); err != nil {
			close(one.lines)
			continue
		}
		one.record = replay.Record(one.to)
		w.mu.Lock()
		if w.all == nil || w.configuration != nil && one.record(*w.configuration) != nil {
			close(one.lines)
		} else {
			w.all[one] = true
		}
		w.mu.Unlock()
	}
}

func (w *watcher) send() {
	defer func() { _ = w.conn.Close() }()
	for line := range w.lines {
		if _, err := w.conn.Write(line); err != nil {
			break
		}
	}
	for range w.lines { // until nobody writes to it any more
	}
}

// tell says what has passed.
func (w *watchers) tell(p stdio.Passage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Method == replay.Configuration && p.Done {
		w.configuration = &p
	}
	for one := range w.all {
		if one.record(p) != nil {
			delete(w.all, one)
			close(one.lines)
		}
	}
}

// words tells those who asked for it what a model is saying. It is left out for one that lags:
// the turn has it all when it is over.
func (w *watchers) words(conversation, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if !one.words.Load() || len(one.lines) > watchedLines/2 {
			continue
		}
		said, err := json.Marshal(text, jsontext.AllowInvalidUTF8(true))
		if err == nil {
			err = one.to.Write(replay.Line{Kind: replay.Words, Conversation: conversation, Response: said})
		}
		if err != nil {
			delete(w.all, one)
			close(one.lines)
		}
	}
}

func (w *watchers) close() {
	if w.listener == nil {
		return
	}
	_ = w.listener.Close() // which removes the socket
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		close(one.lines)
	}
	w.all = nil
}

// watchAgent shows what all processes of an agent do until the last has ended.
func watchAgent(ctx context.Context, p *cli.Program, where meshdir.StateFlags, agent string, whole bool) error {
	name, err := meshdir.AgentArgument("agent show", agent)
	if err != nil {
		return err
	}
	state, err := where.Folder()
	if err != nil {
		return err
	}
	sockets, err := filepath.Glob(filepath.Join(escapeGlob(state.State), watchFolder, string(name)+".*"))
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	lines := make(chan replay.Line)
	for _, socket := range sockets {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil { // its process was killed
			_ = os.Remove(socket)
			continue
		}
		if p.Out.Terminal && !p.Out.JSON {
			if _, err := io.WriteString(conn, askWords); err != nil {
				continue // it has just ended
			}
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		wait.Go(func() { follow(ctx, conn, lines) })
	}
	live := &livePrinter{transcriptPrinter: transcriptPrinter{out: p.Out, whole: whole}, before: map[string]*llm.Request{}, turns: map[string]int{}, said: map[string]string{}}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	for heard := false; ; {
		select {
		case line := <-lines:
			if !heard {
				heard = true
				p.Out.Talkf("watching %s", name)
			}
			if p.Out.JSON {
				if err := p.Out.Line(line); err != nil {
					return err
				}
			} else {
				live.line(&line)
			}
			if err := p.Out.Flush(); err != nil {
				return err
			}
		case <-ended:
			live.quiet()
			if !heard && ctx.Err() == nil {
				return cli.Failf("no model runs %s here", name).WithHint("bcpmesh up starts an agent with command: builtin; bcpmesh agent run %s does it by hand", name)
			}
			return nil
		}
	}
}

// escapeGlob quotes what Glob would not take literally.
func escapeGlob(path string) string {
	var quoted []byte
	for i := range len(path) {
		if c := path[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, path[i])
	}
	return string(quoted)
}

// follow reads a transcript as it is written.
func follow(ctx context.Context, from io.ReadCloser, lines chan<- replay.Line) {
	defer func() { _ = from.Close() }()
	read := replay.NewReader(bufio.NewReader(from))
	for {
		line, err := read.Next()
		if err != nil {
			return
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

// livePrinter shows the lines of a transcript as they come, of conversations side by side.
type livePrinter struct {
	transcriptPrinter
	last   string // the conversation of the newest line
	before map[string]*llm.Request
	turns  map[string]int
	said   map[string]string // the end of what a model is saying
	status bool              // the last line on the screen shows it
}

// maxSaid bounds what is kept of what a model is saying, in bytes.
const maxSaid = 4 << 10

// words shows the end of what a model is saying, in the last line on the screen.
func (s *livePrinter) words(l *replay.Line) {
	var text string
	if json.Unmarshal(l.Response, &text) != nil || text == "" {
		return
	}
	said := s.said[l.Conversation] + text
	s.said[l.Conversation] = strings.ToValidUTF8(said[max(0, len(said)-maxSaid):], "")
	begin := fmt.Sprintf("%s is saying (untrusted): ", cli.Quoted(l.Conversation))
	line := []rune(inert.Line(s.said[l.Conversation]))
	columns, from := cli.Columns(s.out.Screen)-len(begin)-1, len(line)
	for from > 0 {
		if columns -= max(1, inert.Columns(line[from-1])); columns < 0 {
			break
		}
		from--
	}
	s.out.Printf("\r\x1b[K%s%s", begin, string(line[from:]))
	s.status = true
}

// quiet takes what a model is saying from the screen.
func (s *livePrinter) quiet() {
	if s.status {
		s.out.Printf("\r\x1b[K")
		s.status = false
	}
}

func (s *livePrinter) line(l *replay.Line) {
	if l.Kind == replay.Words {
		s.words(l)
		return
	}
	s.quiet()
	delete(s.said, l.Conversation)
	if l.Kind == replay.Configuration {
		if c, err := replay.ConfigurationOf(l); err == nil {
			s.configuration(c)
		}
		return
	}
	if l.Conversation != s.last || l.Kind != replay.Model && l.Kind != replay.End {
		s.say("")
	}
	if l.Conversation != s.last {
		s.last = l.Conversation
		s.say("conversation %s:", cli.Quoted(l.Conversation))
	}
	switch l.Kind {
	case replay.Model:
		r, err := l.ModelRequest()
		if err != nil {
			return
		}
		s.turns[l.Conversation]++
		s.turn(s.turns[l.Conversation], l, r, s.before[l.Conversation])
		s.before[l.Conversation] = r
	case replay.End:
		s.end(l)
		delete(s.before, l.Conversation)
		delete(s.turns, l.Conversation)
	case replay.Query, replay.Prompt, replay.Delivery, replay.Subscriptions:
		s.say("a %s:", l.Kind)
		s.text(string(l.Request))
	default:
		s.call(l)
	}
}
