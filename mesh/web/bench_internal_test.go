package web

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// BenchmarkPage answers with pages of a mesh of 200 channels whose kept history is full,
// and reports the 95th percentile of how long one takes. Answers of the mesh are cached.
func BenchmarkPage(b *testing.B) {
	const channels = 200
	s := newSite("x")
	definition := &bcp.Mesh{Name: "large"}
	var forecasts []bcp.Forecast
	for i := range channels {
		key := bcp.ChannelKey{Controller: bcp.AgentName(fmt.Sprint("main-", i)), Reader: bcp.AgentName(fmt.Sprint("mailer-", i))}
		definition.Agents = append(definition.Agents, bcp.Agent{Name: key.Controller, Controller: true}, bcp.Agent{Name: key.Reader, Reader: true, BaseTaint: bcp.TaintHigh})
		definition.Channels = append(definition.Channels, bcp.Channel{ChannelKey: key})
		forecasts = append(forecasts, bcp.Forecast{Controller: key.Controller, Reader: key.Reader})
	}
	s.mesh.Store(&Mesh{Connected: func() bool { return true }, Definition: func() *bcp.Mesh { return definition }})
	s.views.mesh, s.views.known, s.views.at = s.mesh.Load(), &known{forecasts: forecasts}, time.Now().Add(time.Hour)
	for i := range uint64(2 * maxHistory) {
		c := definition.Channels[i%channels]
		s.history.add(1000+i, &bcp.Decision{Seq: 1000 + i, Time: s.now.UnixNano(), Kind: bcp.KindPush, Verdict: bcp.Accept, Agent: c.Reader, Controller: c.Controller, Reader: c.Reader, Nominal: bcp.Bit})
	}
	s.logins.renew()
	id, place, ok := s.logins.enter(s.codes[len(s.codes)-1])
	if !ok {
		b.Fatal("the code was refused")
	}
	for _, path := range []string{"/", "/audit", "/channels/main-7/mailer-7"} {
		b.Run(path, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				w := httptest.NewRecorder()
				s.http.Handler.ServeHTTP(w, request("GET", path, place+" "+id, nil))
				if took = append(took, time.Since(begin)); w.Code != 200 {
					b.Fatal(w.Code)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}
