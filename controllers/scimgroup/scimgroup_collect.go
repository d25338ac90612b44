package scimgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

const (
	// UnusedGracePeriod is how long a chunk must be unreferenced and unmodified before it is deleted. A
	// writer must refer to a chunk within that time after it creates or patches the chunk; requests time
	// out much earlier.
	UnusedGracePeriod = 10 * time.Minute
	// collectInterval is the interval between two collections.
	collectInterval = 2 * time.Minute
)

// unusedChunk is an unreferenced chunk.
type unusedChunk struct {
	resourceVersion string
	since           time.Time
}

// Collector deletes unreferenced chunks. The package documentation explains why it deletes no chunk that
// a writer is about to use. Its state is in memory, so it writes nothing in steady state, and the grace
// period starts again after a change of leader.
type Collector struct {
	client *kube.Client
	clock  clock.Clock
	unused map[types.UID]unusedChunk
}

// NewCollector returns a Collector for the chunks of all accounts.
func NewCollector(c *kube.Client, clk clock.Clock) *Collector {
	return &Collector{client: c, clock: clk, unused: map[types.UID]unusedChunk{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It collects periodically until the context is done.
func (c *Collector) Start(ctx context.Context) error {
	for {
		if err := c.Once(ctx); err != nil {
			log.FromContext(ctx).Info("Cannot collect unreferenced chunks; will retry", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.clock.After(collectInterval):
		}
	}
}

// Once checks all chunks and deletes those that are due.
func (c *Collector) Once(ctx context.Context) error {
	due, err := c.due(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for namespace, chunks := range due {
		if err := c.collect(ctx, namespace, chunks); err != nil {
			failed = append(failed, fmt.Errorf("collect chunks in namespace %q: %w", namespace, err))
		}
	}
	return errors.Join(failed...)
}

// due returns, by namespace, the chunks that have been unreferenced and unmodified in the cache for longer
// than the grace period.
func (c *Collector) due(ctx context.Context) (map[string][]*v1alpha1.ScimMemberChunk, error) {
	list := &v1alpha1.ScimMemberChunkList{}
	if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list chunks: %w", err)
	}
	groups := &v1alpha1.ScimGroupList{}
	if err := c.client.List(ctx, groups, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	used := map[client.ObjectKey]bool{}
	addReferences(used, groups)
	now, unused, due := c.clock.Now(), map[types.UID]unusedChunk{}, map[string][]*v1alpha1.ScimMemberChunk{}
	for i := range list.Items {
		chunk := &list.Items[i]
		if used[client.ObjectKeyFromObject(chunk)] {
			continue
		}
		u, ok := c.unused[chunk.UID]
		if !ok || u.resourceVersion != chunk.ResourceVersion {
			u = unusedChunk{chunk.ResourceVersion, now}
		}
		unused[chunk.UID] = u
		if now.Sub(u.since) > UnusedGracePeriod {
			due[chunk.Namespace] = append(due[chunk.Namespace], chunk)
		}
	}
	c.unused = unused // without chunks that are used again or deleted
	return due, nil
}

// references returns the chunks that the groups of a namespace refer to, from the API server.
func references(ctx context.Context, live client.Reader, namespace string) (map[client.ObjectKey]bool, error) {
	used := map[client.ObjectKey]bool{}
	for list, err := range kube.Pages(ctx, live, &v1alpha1.ScimGroupList{}, client.InNamespace(namespace)) {
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		addReferences(used, list)
	}
	return used, nil
}

func addReferences(used map[client.ObjectKey]bool, groups *v1alpha1.ScimGroupList) {
	for i := range groups.Items {
		for _, ref := range groups.Items[i].Spec.Chunks() {
			used[client.ObjectKey{Namespace: groups.Items[i].Namespace, Name: ref.Name}] = true
		}
	}
}

// collect deletes the chunks that no group in the API server refers to.
func (c *Collector) collect(ctx context.Context, namespace string, chunks []*v1alpha1.ScimMemberChunk) error {
	used, err := references(ctx, c.client.Live(), namespace)
	if err != nil {
		return err
	}
	deleted := 0
	for _, chunk := range chunks {
		if used[client.ObjectKeyFromObject(chunk)] {
			continue
		}
		err := c.client.Delete(ctx, chunk, client.Preconditions{UID: &chunk.UID, ResourceVersion: &chunk.ResourceVersion})
		switch {
		case err == nil:
			deleted++
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return err
		}
	}
	if deleted > 0 {
		log.FromContext(ctx).Info("Deleted unreferenced chunks", "namespace", namespace, "chunks", deleted)
	}
	return nil
}
