package serving

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/quoin-dev/quoin/internal/tracing"
)

// AnnotationAccount is the annotation with the name of the account of a request.
const AnnotationAccount = "account"

// traced are the annotations that spans contain, and their names there. Others may have the names of users.
var traced = map[string]string{
	AnnotationAccount: "quoin.account", "environment": "quoin.environment", "outcome": "quoin.outcome", "pod": "quoin.pod", "retries": "quoin.retries",
}

// traceRequests creates a span for each request.
func traceRequests(t *tracing.Tracer) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := exchangeOf(r.Context())
			ctx, span := t.Serve(r)
			panicked := true
			defer func() {
				route, attributes := "", []attribute.KeyValue{attribute.String("quoin.request_id", e.id)}
				for _, a := range e.annotated() {
					if a.Key == AnnotationRoute {
						route = a.Value.String()
					}
					if name, ok := traced[a.Key]; ok {
						attributes = append(attributes, attribute.String(name, a.Value.String()))
					}
				}
				span.End(methodOf(r), route, e.outcome(panicked), attributes...)
			}()
			next.ServeHTTP(w, r.WithContext(ctx))
			panicked = false
		})
	}
}

// methodOf returns the method of a request if it is one of knownMethods, otherwise "other": clients choose
// it.
func methodOf(r *http.Request) string {
	if slices.Contains(knownMethods, r.Method) {
		return r.Method
	}
	return "other"
}
