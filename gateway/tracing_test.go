package gateway

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// TestTraceReachesThePod: while tracing is off, the pod receives the trace context of the client unchanged; otherwise that of
// the gateway, in the same trace.
func TestTraceReachesThePod(t *testing.T) {
	const sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	received := ""
	pod := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = r.Header.Get("Traceparent") }))
	defer pod.Close()
	recorder := tracetest.NewSpanRecorder()
	for _, tracer := range []*tracing.Tracer{nil, tracing.FromProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))} {
		f := newTestHandler(t, pod.Listener.Addr().String(), 1000)
		f.transport = tracer.Transport("pod", f.transport)
		f.proxy = f.newProxy(f.transport, nil, slog.New(slog.DiscardHandler))
		r := httptest.NewRequest(http.MethodGet, "/cubejs-api/v1/load?query=SECRET", nil)
		r.Host = "sales.data.example.com"
		r.Header.Set("Authorization", signed(t, "data"))
		r.Header.Set("Traceparent", sent)
		w := httptest.NewRecorder()
		serving.Wrap(f, serving.WrapOptions{Log: slog.New(slog.NewJSONHandler(io.Discard, nil)), Tracer: tracer}).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if tracer == nil && received != sent {
			t.Errorf("without tracing the pod receives %q", received)
		}
	}
	ended := recorder.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	if want := "00-0af7651916cd43dd8448eb211c80319c-" + ended[0].SpanContext().SpanID().String() + "-01"; received != want {
		t.Errorf("the pod received %q, want %q", received, want)
	}
	attributes := map[string]string{}
	for _, a := range ended[1].Attributes() {
		attributes[string(a.Key)] = a.Value.Emit()
	}
	for key, want := range map[string]string{"quoin.account": "acme", "quoin.deployment": "sales", "quoin.environment": "sales-production", "quoin.outcome": "served"} {
		if attributes[key] != want {
			t.Errorf("%s is %q, want %q", key, attributes[key], want)
		}
	}
}
