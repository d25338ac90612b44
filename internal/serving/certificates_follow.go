package serving

import (
	"context"
	"fmt"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settle is how long after a renewal the next change is waited for: a handful of objects that
// are applied at once are one certificate.
const settle = time.Second

// OwnNames are those of the server itself, first in SecretOptions.Names: of the Service in front
// of it, and of the machine that it runs on.
func OwnNames(service, namespace string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local", "localhost", "127.0.0.1"}
}

// Follow calls Refresh soon after an object of the kinds was made, or changed what names says
// that it adds to the certificate's. It goes on until ctx ends and returns nil then; an error
// says that a kind cannot be watched. names is given a pointer to the type of one of the kinds.
func (c *Certificates) Follow(ctx context.Context, informers cache.Informers, names func(o any) []string, kinds ...client.Object) error {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() },
		UpdateFunc: func(before, after any) {
			if !slices.Equal(names(before), names(after)) {
				tell()
			}
		},
	}
	for _, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		// Refresh has logged what went wrong, and Run tries again.
		_ = c.Refresh(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
	}
}
