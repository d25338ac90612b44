package queries

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// TestTraceReachesTheGateway: the gateway receives the trace of the request for which a query runs, and nothing while tracing is off.
func TestTraceReachesTheGateway(t *testing.T) {
	received := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, span := provider.Tracer("test").Start(t.Context(), "GET /api/v1/reports/{id}/results")
	defer span.End()
	target := query.Target{URL: "https://example.com/cubejs-api", Token: func(context.Context) (string, error) { return "token", nil }}
	run := func(tracer *tracing.Tracer) {
		t.Helper()
		runner := &query.Runner{HTTP: Gateway{Address: server.Listener.Addr().String(), CAFile: file}.Client(tracer)}
		_, err := runner.Run(ctx, query.Query{SQL: "SELECT 1"}, target, query.Limits{Rows: 1, Bytes: 1000, Duration: time.Minute})
		if err == nil {
			t.Error("the server has rejected the query")
		}
	}
	run(nil)
	if received != "" {
		t.Errorf("without tracing the gateway received %q", received)
	}
	run(tracing.FromProvider(provider))
	ended := recorder.Ended()
	if len(ended) != 1 || ended[0].Name() != "POST gateway" || ended[0].Parent().SpanID() != span.SpanContext().SpanID() {
		t.Fatalf("spans: %v", ended)
	}
	if want := "00-" + span.SpanContext().TraceID().String() + "-" + ended[0].SpanContext().SpanID().String() + "-01"; received != want {
		t.Errorf("the gateway received %q, want %q", received, want)
	}
}
