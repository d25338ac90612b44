package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/internal/tracing"
)

// unnamed are the kinds whose objects have names of users and of API keys, which are not exported.
var unnamed = map[string]bool{"ApiKey": true, "ScimUser": true, "ScimGroup": true}

// traced returns a reconciler that creates a span for each reconciliation; next if there is no tracer.
func traced(tracer *tracing.Tracer, controller, kind string, next reconcile.Reconciler) reconcile.Reconciler {
	if tracer == nil {
		return next
	}
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		r := tracing.Reconciliation{Controller: controller, Kind: kind, Namespace: request.Namespace, Name: request.Name}
		if unnamed[kind] {
			r.Name = ""
		}
		ctx, span := tracer.Reconcile(ctx, r)
		result, err := next.Reconcile(ctx, request)
		span.End(err)
		return result, err
	})
}
