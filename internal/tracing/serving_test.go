package tracing_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// TestSpansHaveTheRoute: a span has the route, the status and the account, and neither the path nor other annotations, which
// may have names of users.
func TestSpansHaveTheRoute(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := tracing.FromProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	handler := serving.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Annotate(r.Context(), serving.AnnotationRoute, "GET /api/v1/users/{id}")
		serving.Annotate(r.Context(), serving.AnnotationAccount, "acme")
		serving.Annotate(r.Context(), "principal", "User:jane.doe")
		w.WriteHeader(http.StatusTeapot)
	}), serving.WrapOptions{Tracer: tracer})
	for _, method := range []string{http.MethodGet, "SECRET"} {
		r := httptest.NewRequest(method, "/api/v1/users/jane.doe?token=SECRET", nil)
		r.Header.Set("X-Request-Id", "r1")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	ended := recorder.Ended()
	if len(ended) != 2 || ended[0].Name() != "GET /api/v1/users/{id}" {
		t.Fatalf("%d spans: %v", len(ended), ended)
	}
	attributes := map[string]string{}
	for _, a := range ended[0].Attributes() {
		attributes[string(a.Key)] = a.Value.Emit()
	}
	for key, want := range map[string]string{
		"http.route": "/api/v1/users/{id}", "http.response.status_code": "418", "http.request.method": "GET", "quoin.account": "acme", "quoin.request_id": "r1",
	} {
		if attributes[key] != want {
			t.Errorf("%s is %q, want %q", key, attributes[key], want)
		}
		delete(attributes, key)
	}
	if len(attributes) > 0 {
		t.Errorf("further attributes: %v", attributes)
	}
	for _, a := range ended[1].Attributes() {
		if a.Key == "http.request.method" && a.Value.Emit() != "other" {
			t.Errorf("an unknown method is %q", a.Value.Emit())
		}
	}
}
