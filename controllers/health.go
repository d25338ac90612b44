package controllers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// errCachesNotSynced says that the controllers do not know the cluster yet.
var errCachesNotSynced = errors.New("caches are not filled yet")

// cachesSynced is ready once the caches are filled. It answers at once: a probe that hangs
// tells nothing.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errCachesNotSynced
		}
		return nil
	}
}
