package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/quoin-dev/quoin/internal/tracing"
)

// tracingFlags are the receiver of traces and its protocol.
type tracingFlags struct{ tracing.Options }

func (f *tracingFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.Endpoint, "tracing-endpoint", "", "`URL` of an OTLP receiver for traces, such as http://collector:4318; that of OTEL_EXPORTER_OTLP_ENDPOINT when empty, and no traces without either")
	fs.StringVar(&f.Protocol, "tracing-protocol", "", "`protocol` of the receiver: http/protobuf or grpc; that of OTEL_EXPORTER_OTLP_PROTOCOL when empty")
}

// validate returns the problem with the flags, or "".
func (f *tracingFlags) validate() string {
	if err := f.Validate(); err != nil {
		return "--tracing-endpoint, --tracing-protocol: " + err.Error()
	}
	return ""
}

// trace calls work with the tracer of a process, which is nil if tracing is off, and exports the last spans when work has
// returned. Requests with config belong to the trace that causes them.
func (f *tracingFlags) trace(ctx context.Context, name string, log *slog.Logger, config *rest.Config, work func(*tracing.Tracer) error) error {
	o := f.Options
	o.Service, o.Version, o.Log = name, readBuild().Version, log
	tracer, err := tracing.New(ctx, o)
	if err != nil {
		return err
	}
	defer tracer.Close()
	if tracer != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tracer.Transport("kubernetes", next) })
	}
	return work(tracer)
}
