package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Reconciliation describes the object that a controller reconciles.
type Reconciliation struct {
	// Controller is the name of the controller, and Kind the kind of the object.
	Controller, Kind string
	// Namespace and Name are empty for objects without a namespace, and whose names are not to be exported.
	Namespace, Name string
}

// Reconcile starts the span of a reconciliation, which begins a trace.
func (t *Tracer) Reconcile(ctx context.Context, r Reconciliation) (context.Context, *ReconcileSpan) {
	attributes := []attribute.KeyValue{attribute.String("quoin.controller", r.Controller), attribute.String("quoin.kind", r.Kind)}
	for key, value := range map[string]string{"quoin.namespace": r.Namespace, "quoin.name": r.Name} {
		if value != "" {
			attributes = append(attributes, attribute.String(key, value))
		}
	}
	ctx, span := t.tracer.Start(ctx, "reconcile "+r.Controller, trace.WithNewRoot(), trace.WithAttributes(attributes...))
	return ctx, &ReconcileSpan{span}
}

// ReconcileSpan is the span of a reconciliation.
type ReconcileSpan struct{ span trace.Span }

// End ends the span. The text of the error is not exported: it may contain a URL.
func (s *ReconcileSpan) End(err error) {
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// SetOutcome adds the outcome of a reconciliation and its reason to the span of its context, if there is one.
func SetOutcome(ctx context.Context, outcome, reason string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("quoin.outcome", outcome), attribute.String("quoin.reason", reason))
	}
}
