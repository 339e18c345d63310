package otlp

import (
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/trace"
)

// sender is who sends, as each request says it.
type sender struct {
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
}

func newSender(c Config) sender {
	attributes := []*commonpb.KeyValue{textAttribute("service.name", c.Service), textAttribute("bcp.mesh", c.Definition.Name)}
	if c.Version != "" {
		attributes = append(attributes, textAttribute("service.version", c.Version))
	}
	return sender{&resourcepb.Resource{Attributes: attributes}, &commonpb.InstrumentationScope{Name: "github.com/bcpmesh/bcpmesh/mesh/trace", Version: c.Version}}
}

// resourceSpans are spans as a request has them.
func (s sender) resourceSpans(spans []*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{Resource: s.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.scope, Spans: spans}}}}
}

// sampled says that a span was recorded, and that its parent is of this process.
const sampled = uint32(1) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)

// appendSpans adds spans in their wire types, and keeps nothing of theirs.
func appendSpans(to []*tracepb.Span, spans []trace.Span) []*tracepb.Span {
	for i := range spans {
		span := &spans[i]
		message := &tracepb.Span{
			TraceId: append([]byte(nil), span.Trace[:]...), SpanId: append([]byte(nil), span.ID[:]...),
			Name: span.Name, Kind: tracepb.Span_SPAN_KIND_SERVER, Flags: sampled,
			StartTimeUnixNano: uint64(max(0, span.Begin)), EndTimeUnixNano: uint64(max(0, span.End)),
			Attributes: toAttributes(span.Attributes),
		}
		if span.Parent != (trace.SpanID{}) {
			message.Kind, message.ParentSpanId = tracepb.Span_SPAN_KIND_INTERNAL, append([]byte(nil), span.Parent[:]...)
		}
		to = append(to, message)
	}
	return to
}

func toAttributes(from []trace.Attribute) []*commonpb.KeyValue {
	to := make([]*commonpb.KeyValue, 0, len(from))
	for i := range from {
		a := &from[i]
		value := &commonpb.AnyValue{}
		switch a.Kind {
		case trace.Text:
			value = textValue(a.Text)
		case trace.Truth:
			value.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Number != 0}
		case trace.Number:
			value.Value = &commonpb.AnyValue_IntValue{IntValue: a.Number}
		case trace.Bits:
			value.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: float64(a.Number) / float64(bcp.Bit)}
		case trace.List:
			list := &commonpb.ArrayValue{}
			for _, text := range a.Texts {
				list.Values = append(list.Values, textValue(text))
			}
			value.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list}
		default:
			continue
		}
		to = append(to, &commonpb.KeyValue{Key: a.Key, Value: value})
	}
	return to
}

func textAttribute(key, text string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: textValue(text)}
}

func textValue(text string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text}}
}
