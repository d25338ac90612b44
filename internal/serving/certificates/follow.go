package certificates

import (
	"context"
	"fmt"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// followInterval is the minimum time between renewals, so that objects that are applied together
// cause one renewal.
const followInterval = time.Second

// OwnNames returns the names of the server itself, which are first in SecretOptions.Names: those of
// its Service, and of the local machine.
func OwnNames(service, namespace string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local", "localhost", "127.0.0.1"}
}

// Follow calls Refresh when an object of the kinds is added, or when its names change. names
// returns the names that an object, a pointer to a type of kinds, adds to the certificate. Follow
// returns nil when ctx ends, or an error if a kind cannot be watched.
func (c *Certificates) Follow(ctx context.Context, informers cache.Informers, names func(o any) []string, kinds ...client.Object) error {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() },
		UpdateFunc: func(before, after any) {
			if !slices.Equal(names(before), names(after)) {
				notify()
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
		// Refresh has logged the error; Run retries.
		_ = c.Refresh(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(followInterval):
		}
	}
}
