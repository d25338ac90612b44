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
	// Patience is how long a chunk must be unreferenced and untouched before it is collected.
	// Who makes or touches a chunk has that long to refer to it; requests end far sooner.
	Patience = 10 * time.Minute
	// collectPause is the time between two looks.
	collectPause = 2 * time.Minute
	// page is how many groups are read at once.
	page = 500
)

// sighting is a chunk that no group referred to, and since when it was seen so.
type sighting struct {
	resourceVersion string
	since           time.Time
}

// Collector deletes chunks that no group refers to. See the package's documentation for why
// it deletes none that somebody is about to use. It remembers what it saw in memory: another
// leader begins to count anew, and nothing is written at rest.
type Collector struct {
	client *kube.Client
	clock  clock.Clock
	unused map[types.UID]sighting
}

// NewCollector returns a collector of the chunks of all accounts.
func NewCollector(c *kube.Client, clk clock.Clock) *Collector {
	return &Collector{client: c, clock: clk, unused: map[types.UID]sighting{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one is enough.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it collects now and then until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	for {
		if err := c.Once(ctx); err != nil {
			log.FromContext(ctx).Info("Chunks that no group refers to are still there, for the next look", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.clock.After(collectPause):
		}
	}
}

// Once looks at all chunks and deletes those that are due.
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

// due are the chunks by namespace that the cache has shown unreferenced and untouched for
// long enough.
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
	now, unused, due := c.clock.Now(), map[types.UID]sighting{}, map[string][]*v1alpha1.ScimMemberChunk{}
	for i := range list.Items {
		chunk := &list.Items[i]
		if used[client.ObjectKeyFromObject(chunk)] {
			continue
		}
		seen, ok := c.unused[chunk.UID]
		if !ok || seen.resourceVersion != chunk.ResourceVersion {
			seen = sighting{chunk.ResourceVersion, now}
		}
		unused[chunk.UID] = seen
		if now.Sub(seen.since) > Patience {
			due[chunk.Namespace] = append(due[chunk.Namespace], chunk)
		}
	}
	c.unused = unused // what is used again or gone is forgotten
	return due, nil
}

// references are the chunks that the groups of a namespace refer to, as the API server says, page
// by page. A cache knows no pages, and says of every list that it goes on.
func references(ctx context.Context, live client.Reader, namespace string) (map[client.ObjectKey]bool, error) {
	used := map[client.ObjectKey]bool{}
	for next := ""; ; {
		list := &v1alpha1.ScimGroupList{}
		if err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		addReferences(used, list)
		if next = list.Continue; next == "" {
			return used, nil
		}
	}
}

func addReferences(used map[client.ObjectKey]bool, groups *v1alpha1.ScimGroupList) {
	for i := range groups.Items {
		for _, ref := range groups.Items[i].Spec.MemberChunks {
			used[client.ObjectKey{Namespace: groups.Items[i].Namespace, Name: ref.Name}] = true
		}
	}
}

// collect deletes chunks of a namespace that no group refers to, as the API server says.
func (c *Collector) collect(ctx context.Context, namespace string, chunks []*v1alpha1.ScimMemberChunk) error {
	used, err := references(ctx, c.client.Live(), namespace)
	if err != nil {
		return err
	}
	removed := 0
	for _, chunk := range chunks {
		if used[client.ObjectKeyFromObject(chunk)] {
			continue
		}
		err := c.client.Delete(ctx, chunk, client.Preconditions{UID: &chunk.UID, ResourceVersion: &chunk.ResourceVersion})
		switch {
		case err == nil:
			removed++
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return err
		}
	}
	if removed > 0 {
		log.FromContext(ctx).Info("Removed chunks that no group refers to", "namespace", namespace, "chunks", removed)
	}
	return nil
}
