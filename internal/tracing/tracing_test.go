package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

// recorded returns a tracer and the spans that it has ended.
func recorded(t *testing.T) (*Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer, err := newTracer(t.Context(), Options{Service: "quoin-test", Version: "v1"}, sdktrace.WithSpanProcessor(recorder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tracer.Close)
	return tracer, recorder
}

// TestOff: without an endpoint there is no tracer, and a nil tracer changes nothing and allocates nothing.
func TestOff(t *testing.T) {
	for _, variables := range []map[string]string{
		{}, {envEndpoint: "http://collector:4318", envDisabled: "true"}, {envTracesEndpoint: "http://collector:4318", envExporter: "none"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range variables {
				t.Setenv(name, value)
			}
			tracer, err := New(t.Context(), Options{Service: "quoin-test"})
			if tracer != nil || err != nil {
				t.Errorf("%v: %v, %v", variables, tracer, err)
			}
			tracer.Close()
			if tracer.Transport("pod", http.DefaultTransport) != http.DefaultTransport {
				t.Error("the transport is wrapped")
			}
		})
	}
	if n := testing.AllocsPerRun(100, func() { SetTarget(context.Background(), "acme", "sales") }); n != 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

func TestValidate(t *testing.T) {
	for endpoint, valid := range map[string]bool{
		"": true, "http://collector:4318": true, "https://collector/otlp": true,
		"collector:4318": false, "ftp://collector": false, "http://user:SECRET@collector": false, "http://collector?token=SECRET": false, "http://": false,
	} {
		err := Options{Endpoint: endpoint}.Validate()
		if (err == nil) != valid || err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	if err := (Options{Protocol: "http/json"}).Validate(); err == nil {
		t.Error("protocol http/json is valid")
	}
	t.Setenv(envProtocol, "thrift")
	if err := (Options{}).Validate(); err == nil {
		t.Error("protocol thrift is valid")
	}
}

// TestContextIsKept: the span of the client is the parent of the server's, which is the parent of that of the request to a
// pod, and the pod receives the latter.
func TestContextIsKept(t *testing.T) {
	tracer, recorder := recorded(t)
	var received string
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer pod.Close()
	in := httptest.NewRequest(http.MethodGet, "/secret-path?query=SECRET", nil)
	in.Header.Set("Traceparent", "00-"+traceID+"-"+parentID+"-01")
	in.Header.Set("Tracestate", "vendor=1")
	ctx, span := tracer.Serve(in)
	SetTarget(ctx, "acme", "sales")
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, pod.URL+"/secret-path?query=SECRET", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := tracer.Transport("pod", http.DefaultTransport).RoundTrip(out)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if len(out.Header) != 0 {
		t.Errorf("the request was changed: %v", out.Header)
	}
	span.End(http.MethodGet, "GET /api/v1/deployments/{id}", http.StatusBadGateway)

	ended := recorder.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	toPod, server := ended[0], ended[1]
	want := "00-" + traceID + "-" + toPod.SpanContext().SpanID().String() + "-01 vendor=1"
	if received != want {
		t.Errorf("the pod received %q, want %q", received, want)
	}
	if server.Parent().SpanID().String() != parentID || toPod.Parent().SpanID() != server.SpanContext().SpanID() {
		t.Errorf("parents %s and %s", server.Parent().SpanID(), toPod.Parent().SpanID())
	}
	if server.Name() != "GET /api/v1/deployments/{id}" || server.SpanKind() != trace.SpanKindServer || toPod.Name() != "GET pod" || toPod.SpanKind() != trace.SpanKindClient {
		t.Errorf("%s %s, %s %s", server.SpanKind(), server.Name(), toPod.SpanKind(), toPod.Name())
	}
	attributes := map[string]string{}
	for _, s := range ended {
		for _, a := range s.Attributes() {
			attributes[string(a.Key)] = a.Value.Emit()
			if strings.Contains(strings.ToLower(a.Value.Emit()), "secret") {
				t.Errorf("%s: attribute %s is %q", s.Name(), a.Key, a.Value.Emit())
			}
		}
	}
	for key, want := range map[string]string{"quoin.account": "acme", "quoin.deployment": "sales", "http.route": "/api/v1/deployments/{id}", "http.response.status_code": "502"} {
		if attributes[key] != want {
			t.Errorf("%s is %q, want %q", key, attributes[key], want)
		}
	}
}

// TestClientDecidesOnSampling: a request that the client does not sample has no spans, and its context is passed on.
func TestClientDecidesOnSampling(t *testing.T) {
	tracer, recorder := recorded(t)
	in := httptest.NewRequest(http.MethodGet, "/", nil)
	in.Header.Set("Traceparent", "00-"+traceID+"-"+parentID+"-00")
	ctx, span := tracer.Serve(in)
	if got := trace.SpanContextFromContext(ctx); got.TraceID().String() != traceID || got.IsSampled() {
		t.Errorf("%+v", got)
	}
	span.End(http.MethodGet, "", http.StatusOK)
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

// TestRequestsOutsideOfTraces: requests of background work have no spans and no trace context.
func TestRequestsOutsideOfTraces(t *testing.T) {
	tracer, recorder := recorded(t)
	next := roundTripper(func(r *http.Request) (*http.Response, error) {
		if len(r.Header) != 0 {
			t.Errorf("headers %v", r.Header)
		}
		return nil, io.EOF
	})
	r := httptest.NewRequest(http.MethodGet, "http://pod/", nil)
	if _, err := tracer.Transport("pod", next).RoundTrip(r); err != io.EOF { //nolint:errorlint,bodyclose // unchanged; there is no response
		t.Error(err)
	}
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestExportOverHTTP: spans reach a receiver of OTLP at the flag's address.
func TestExportOverHTTP(t *testing.T) {
	paths := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		paths <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
	}))
	defer receiver.Close()
	tracer, err := New(t.Context(), Options{Endpoint: receiver.URL, Service: "quoin-test"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Serve(httptest.NewRequest(http.MethodGet, "/", nil))
	span.End(http.MethodGet, "", http.StatusOK)
	tracer.Close()
	select {
	case got := <-paths:
		if got != "POST /v1/traces application/x-protobuf" {
			t.Errorf("the receiver got %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing was exported")
	}
}

// TestUnreachableReceiver: requests do not wait for a receiver, and the process can start and stop without it.
func TestUnreachableReceiver(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
		tracer, err := New(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Protocol: protocol, Service: "quoin-test"})
		if err != nil {
			t.Fatal(err)
		}
		_, span := tracer.Serve(httptest.NewRequest(http.MethodGet, "/", nil))
		span.End(http.MethodGet, "", http.StatusOK)
		tracer.Close()
	}
}
