package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// What people have in the place of a mesh, each with the payload of a push.
const (
	altRequest = "NATS request and reply"
	altStream  = "JetStream publish, fsync every two minutes"
	altFsync   = "JetStream publish, fsync of each"
	altHTTP    = "HTTP request"
	altProxy   = "HTTP request through a reverse proxy"
)

var alternatives = []string{altRequest, altStream, altFsync, altHTTP, altProxy}

const (
	altSubject = "alternative.request"
	altRecords = "alternative.records"
)

// alternativesPart serves them all.
type alternativesPart struct {
	servers []*natsserver.Server
	conns   []*nats.Conn
	web     []*http.Server
}

// startAlternatives returns the addresses by name.
func startAlternatives(ctx context.Context, state string) (p *alternativesPart, r reply, err error) {
	p = &alternativesPart{}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	r.At = map[string]string{}
	for name, always := range map[string]bool{altStream: false, altFsync: true} {
		s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(state, fmt.Sprint(always)), SyncAlways: always, NoLog: true, NoSigs: true})
		if err != nil {
			return p, r, err
		}
		p.servers = append(p.servers, s)
		s.Start()
		if !s.ReadyForConnections(connectTimeout) {
			return p, r, errSilent
		}
		conn, err := nats.Connect(s.ClientURL())
		if err != nil {
			return p, r, err
		}
		p.conns = append(p.conns, conn)
		js, err := natsjs.New(conn)
		if err != nil {
			return p, r, err
		}
		if _, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: "RECORDS", Subjects: []string{altRecords}}); err != nil {
			return p, r, err
		}
		if _, err := conn.Subscribe(altSubject, func(m *nats.Msg) { _ = m.Respond(delivered) }); err != nil {
			return p, r, err
		}
		r.At[name] = s.ClientURL()
		r.At[altRequest] = s.ClientURL()
	}
	backend, err := p.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(delivered)
	}))
	if err != nil {
		return p, r, err
	}
	proxy, err := p.serve(httputil.NewSingleHostReverseProxy(backend))
	if err != nil {
		return p, r, err
	}
	r.At[altHTTP], r.At[altProxy] = backend.String(), proxy.String()
	return p, r, nil
}

func (p *alternativesPart) serve(h http.Handler) (*url.URL, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: answerTimeout}
	p.web = append(p.web, s)
	go func() { _ = s.Serve(listener) }() // requests fail then, and say so
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}, nil
}

func (p *alternativesPart) stop() {
	for _, s := range p.web {
		_ = s.Close()
	}
	for _, c := range p.conns {
		c.Close()
	}
	for _, s := range p.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// useAlternative asks one over and over, over as many connections as Readers share.
func useAlternative(ctx context.Context, o order) (reply, error) {
	var ask []func(body []byte) error
	for range min(o.Load.InFlight, pairs) {
		one, stop, err := asker(ctx, o)
		if err != nil {
			return reply{}, err
		}
		defer stop()
		ask = append(ask, one)
	}
	return work(o.Load, func(w, _ int) (time.Duration, error) {
		body := pushBody(controllerName(0), rand.Text())
		begin := time.Now()
		err := ask[w%len(ask)](body)
		return time.Since(begin), err
	})
}

// asker connects to an alternative.
func asker(ctx context.Context, o order) (ask func(body []byte) error, stop func(), err error) {
	if o.Kind == altHTTP || o.Kind == altProxy {
		transport := &http.Transport{MaxIdleConnsPerHost: pairs}
		client := &http.Client{Transport: transport}
		return func(body []byte) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			content, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil || !bytes.Equal(content, delivered) {
				return errors.Join(errSilent, err)
			}
			return nil
		}, transport.CloseIdleConnections, nil
	}
	conn, err := nats.Connect(o.URL)
	if err != nil {
		return nil, nil, err
	}
	if o.Kind == altRequest {
		return func(body []byte) error {
			_, err := conn.RequestWithContext(ctx, altSubject, body)
			return err
		}, conn.Close, nil
	}
	js, err := natsjs.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return func(body []byte) error {
		_, err := js.Publish(ctx, altRecords, body)
		return err
	}, conn.Close, nil
}

// alternatives compares common alternatives to a mesh with a push, in turns.
func (r *runner) alternatives() error {
	crossed := shape{Readers: pairs, Controllers: pairs, Crossed: true}
	mesh, _, err := r.start(pathMesh, order{Kind: kindMesh, Shape: crossed}, readersOnly)
	if err != nil {
		return err
	}
	defer mesh.stop()
	host, err := startProcess(r.options.Command(r))
	if err != nil {
		return err
	}
	defer host.stop()
	client, err := startProcess(r.options.Command(r))
	if err != nil {
		return err
	}
	defer client.stop()
	r.folders++
	served, err := host.do(order{Do: doAlternatives, State: fmt.Sprintf("%s/%d", r.options.State, r.folders)})
	if err != nil {
		return err
	}
	for _, n := range []int{1, 16} {
		rounds := map[string][]measured{}
		for round := range r.rounds + 1 {
			l := load{Mode: modePush, InFlight: n, Shape: crossed, Duration: r.options.Duration}
			for _, name := range slices.Concat([]string{pathMesh}, alternatives) {
				var m measured
				if name == pathMesh {
					m, err = mesh.load(l)
				} else {
					m.reply, err = client.do(order{Do: doAlternative, Kind: name, URL: served.At[name], Load: l})
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if round > 0 {
					rounds[name] = append(rounds[name], m)
				}
			}
		}
		push := summary("alternatives", "push to a mesh", n, rounds[pathMesh])
		r.report.Loads = append(r.report.Loads, push)
		for _, name := range alternatives {
			one := summary("alternatives", name, n, rounds[name])
			r.report.Loads = append(r.report.Loads, one)
			if n == 1 {
				r.report.add(Figure{Name: "alternatives", What: name + ", p50", InFlight: n, Value: micro(one.P50), Floor: micro(push.P50), FloorIs: "push", Unit: "µs"}, nil)
			} else {
				r.report.add(Figure{Name: "alternatives", What: name + ", rate", InFlight: n, Value: one.Rate, Floor: push.Rate, FloorIs: "push", Unit: "/s"}, nil)
			}
		}
	}
	return nil
}
