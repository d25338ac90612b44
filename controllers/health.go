package controllers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// errCachesNotSynced means that the controllers cannot work yet.
var errCachesNotSynced = errors.New("caches are not synced")

// cachesSynced succeeds when the caches are synced. It has a timeout below that of the probe.
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
