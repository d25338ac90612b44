package controllers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/internal/tracing"
)

// TestTracedReconciliations: each reconciliation is a trace with the requests to the API server in it, and has neither the text
// of errors nor names of users.
func TestTracedReconciliations(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.FromProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	kubernetes := tracer.Transport("kubernetes", http.DefaultTransport)
	failure := errors.New("https://user:SECRET@example.com")
	work := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, api.URL, nil)
		if err != nil {
			return reconcile.Result{}, err
		}
		response, err := kubernetes.RoundTrip(request)
		if err != nil {
			return reconcile.Result{}, err
		}
		tracing.SetOutcome(ctx, "failing", "GitFailed")
		return reconcile.Result{}, errors.Join(response.Body.Close(), failure)
	})
	for _, kind := range []string{"Deployment", "ScimUser"} {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "acme", Name: "jane.doe"}}
		if _, err := traced(tracer, "controller", kind, work).Reconcile(t.Context(), request); !errors.Is(err, failure) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	ended := recorder.Ended()
	if len(ended) != 4 {
		t.Fatalf("%d spans", len(ended))
	}
	for i, want := range []map[string]string{
		{"quoin.controller": "controller", "quoin.kind": "Deployment", "quoin.namespace": "acme", "quoin.name": "jane.doe", "quoin.outcome": "failing", "quoin.reason": "GitFailed"},
		{"quoin.controller": "controller", "quoin.kind": "ScimUser", "quoin.namespace": "acme", "quoin.outcome": "failing", "quoin.reason": "GitFailed"},
	} {
		write, reconciliation := ended[2*i], ended[2*i+1]
		if write.Name() != "PATCH kubernetes" || write.Parent().SpanID() != reconciliation.SpanContext().SpanID() || reconciliation.Parent().IsValid() {
			t.Errorf("%s in %s, in %v", write.Name(), reconciliation.Name(), reconciliation.Parent())
		}
		if status := reconciliation.Status(); status.Code != codes.Error || status.Description != "" || len(reconciliation.Events()) != 0 {
			t.Errorf("status %+v, events %v", status, reconciliation.Events())
		}
		got := map[string]string{}
		for _, a := range reconciliation.Attributes() {
			got[string(a.Key)] = a.Value.Emit()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
	}
	if ended[0].SpanContext().TraceID() == ended[2].SpanContext().TraceID() {
		t.Error("two reconciliations are one trace")
	}
}

// reconciler is a reconciler that can be compared.
type reconciler struct{ reconcile.Reconciler }

// TestTracingIsOff: without a tracer, reconcilers are not wrapped, and reporting an outcome allocates nothing.
func TestTracingIsOff(t *testing.T) {
	r := &reconciler{}
	if traced(nil, "deployment", "Deployment", r) != reconcile.Reconciler(r) {
		t.Error("the reconciler is wrapped")
	}
	if n := testing.AllocsPerRun(100, func() { tracing.SetOutcome(context.Background(), "done", "Succeeded") }); n != 0 {
		t.Errorf("%v allocations for each reconciliation", n)
	}
}
