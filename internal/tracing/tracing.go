// Package tracing exports spans with OpenTelemetry, and keeps the trace context of clients (W3C Trace
// Context) in requests to other servers.
//
// Spans describe requests by their route, status, account and deployment. They contain no paths, queries,
// headers or bodies, which may hold secrets.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The protocols of exporters, as in OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	ProtocolHTTP = "http/protobuf"
	ProtocolGRPC = "grpc"
)

// shutdownTimeout bounds the export of the last spans.
const shutdownTimeout = 5 * time.Second

// The environment variables of the OpenTelemetry specification that this package reads. The exporters and
// the SDK read the others: headers, certificates, timeouts, sampler and limits.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// Options configure a Tracer.
type Options struct {
	// Endpoint is the URL of an OTLP receiver, such as http://collector:4318 or, with gRPC,
	// http://collector:4317. If it is empty, it is that of the environment variables; without those,
	// tracing is off.
	Endpoint string
	// Protocol is ProtocolHTTP or ProtocolGRPC. If it is empty, it is that of the environment variables;
	// without those, ProtocolHTTP.
	Protocol string
	// Service and Version describe the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
	// precedence.
	Service, Version string
	// Log receives errors of the export; slog.Default() if nil.
	Log *slog.Logger
}

// Tracer creates spans. A nil Tracer is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// propagator reads and writes the headers traceparent and tracestate.
var propagator = propagation.TraceContext{}

// Enabled reports whether the options and the environment turn tracing on.
func (o Options) Enabled() bool {
	off := strings.EqualFold(os.Getenv(envDisabled), "true") || os.Getenv(envExporter) == "none"
	return !off && cmp.Or(o.Endpoint, os.Getenv(envTracesEndpoint), os.Getenv(envEndpoint)) != ""
}

// Validate returns an error if an endpoint or protocol is invalid. It does not contain the endpoint, which
// may have a password.
func (o Options) Validate() error {
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("the endpoint of traces must be http:// or https:// with a host, without user and query")
		}
	}
	if p := o.protocol(); p != ProtocolHTTP && p != ProtocolGRPC {
		return fmt.Errorf("the protocol of traces is %q, must be %s or %s", p, ProtocolHTTP, ProtocolGRPC)
	}
	return nil
}

func (o Options) protocol() string {
	return cmp.Or(o.Protocol, os.Getenv(envTracesProtocol), os.Getenv(envProtocol), ProtocolHTTP)
}

// New returns a Tracer, or nil if tracing is off. It does not wait for the receiver.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if !o.Enabled() {
		return nil, nil
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	exporter, err := o.exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the export of traces: %w", err)
	}
	log := cmp.Or(o.Log, slog.Default())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("Traces cannot be exported", "error", err.Error()) }))
	return newTracer(ctx, o, sdktrace.WithBatcher(exporter))
}

func newTracer(ctx context.Context, o Options, processor sdktrace.TracerProviderOption) (*Tracer, error) {
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)),
		resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe the process for traces: %w", err)
	}
	// The default sampler is that of OTEL_TRACES_SAMPLER; without it, all requests are sampled, unless
	// the client has decided that a request is not.
	return FromProvider(sdktrace.NewTracerProvider(processor, sdktrace.WithResource(described))), nil
}

// FromProvider returns a Tracer with a provider of its own, for tests.
func FromProvider(provider *sdktrace.TracerProvider) *Tracer {
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/quoin-dev/quoin")}
}

func (o Options) exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if o.protocol() == ProtocolGRPC {
		var options []otlptracegrpc.Option
		if o.Endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(o.Endpoint))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	var options []otlptracehttp.Option
	if o.Endpoint != "" {
		// Like OTEL_EXPORTER_OTLP_ENDPOINT, the flag is the base of the path.
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/traces"))
	}
	return otlptracehttp.New(ctx, options...)
}

// Close exports the spans that are left.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Serve starts the span of a request to this server, as a child of the client's if it sent a trace context.
func (t *Tracer) Serve(r *http.Request) (context.Context, *ServerSpan) {
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, &ServerSpan{span}
}

// ServerSpan is the span of a request to this server.
type ServerSpan struct{ span trace.Span }

// End ends the span. The method must be one of a known set; route is a pattern, or empty.
func (s *ServerSpan) End(method, route string, status int, attributes ...attribute.KeyValue) {
	name := method
	if route != "" {
		name += " " + strings.TrimPrefix(route, method+" ")
		s.span.SetAttributes(attribute.String("http.route", strings.TrimPrefix(route, method+" ")))
	}
	s.span.SetName(name)
	s.span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", status))
	s.span.SetAttributes(attributes...)
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// SetTarget adds the account and the deployment of a request to the span of its context, if there is one.
func SetTarget(ctx context.Context, account, deployment string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for key, value := range map[string]string{"quoin.account": account, "quoin.deployment": deployment} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
}

// Transport returns a transport that sends the trace context of requests to another server, with a span for
// each request. Requests that belong to no trace are sent unchanged. name is the name of the server in
// spans. Transport returns next if t is nil.
func (t *Tracer) Transport(name string, next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return &transport{t, name, next}
}

type transport struct {
	*Tracer
	name string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.next.RoundTrip(r)
	}
	ctx, span := t.tracer.Start(r.Context(), r.Method+" "+t.name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("peer.service", t.name)))
	defer span.End()
	r = r.Clone(ctx)
	propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	response, err := t.next.RoundTrip(r)
	switch {
	case err != nil:
		span.SetStatus(codes.Error, "no response") // the error may contain a URL
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
		if response.StatusCode >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
	return response, err
}

// CloseIdleConnections closes the idle connections of the transport.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
