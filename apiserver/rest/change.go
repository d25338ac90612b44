package rest

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/apiserver/edit"
)

// change edits the spec of an object as the API server has it now, and returns it as written.
// Nothing is written when alter changes nothing.
func change[T client.Object](ctx context.Context, a *API, obj T, alter func(T) error) (T, error) {
	edited, written, err := edit.Spec(ctx, a.Kube, client.ObjectKeyFromObject(obj), func(live, edited T) error {
		if live.GetUID() != obj.GetUID() || !live.GetDeletionTimestamp().IsZero() {
			return notFound("it has just been deleted")
		}
		return alter(edited)
	})
	if written {
		a.seen(ctx, edited, true)
	}
	return edited, err
}
