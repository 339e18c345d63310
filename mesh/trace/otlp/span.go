package otlp

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/trace"
)

// sender is who sends, as each span says it.
type sender struct {
	resource *resource.Resource
	scope    instrumentation.Scope
}

func senderOf(c Config) sender {
	attributes := []attribute.KeyValue{attribute.String("service.name", c.Service), attribute.String("bcp.mesh", c.Definition.Name)}
	if c.Version != "" {
		attributes = append(attributes, attribute.String("service.version", c.Version))
	}
	return sender{resource.NewSchemaless(attributes...), instrumentation.Scope{Name: "github.com/bcpmesh/bcpmesh/mesh/trace", Version: c.Version}}
}

// appendSpans adds spans as the exporter takes them, and keeps nothing of theirs.
// Only a snapshot can be made of what has ended: the SDK's own spans take their
// times and their ids from where they are begun.
func (s *sender) appendSpans(to []sdk.ReadOnlySpan, spans []trace.Span) []sdk.ReadOnlySpan {
	for i := range spans {
		span := &spans[i]
		stub := tracetest.SpanStub{
			Name: span.Name, SpanKind: otel.SpanKindServer, SpanContext: contextOf(span.Trace, span.ID),
			StartTime: time.Unix(0, span.Begin), EndTime: time.Unix(0, span.End),
			Attributes: attributesOf(span.Attributes), Resource: s.resource, InstrumentationScope: s.scope,
		}
		if span.Parent != (trace.SpanID{}) {
			stub.SpanKind, stub.Parent = otel.SpanKindInternal, contextOf(span.Trace, span.Parent)
		}
		to = append(to, stub.Snapshot())
	}
	return to
}

func contextOf(t trace.TraceID, s trace.SpanID) otel.SpanContext {
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID(t), SpanID: otel.SpanID(s), TraceFlags: otel.FlagsSampled})
}

func attributesOf(from []trace.Attribute) []attribute.KeyValue {
	to := make([]attribute.KeyValue, 0, len(from))
	for i := range from {
		switch a := &from[i]; a.Kind {
		case trace.Text:
			to = append(to, attribute.String(a.Key, a.Text))
		case trace.Truth:
			to = append(to, attribute.Bool(a.Key, a.Number != 0))
		case trace.Number:
			to = append(to, attribute.Int64(a.Key, a.Number))
		case trace.Bits:
			to = append(to, attribute.Float64(a.Key, float64(a.Number)/float64(bcp.Bit)))
		case trace.List:
			to = append(to, attribute.StringSlice(a.Key, a.Texts))
		}
	}
	return to
}
