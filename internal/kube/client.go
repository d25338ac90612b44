// Package kube reads and writes Kubernetes objects: reads that are never older than the own writes
// of the process, lists in pages, server-side apply that writes only differences, and status
// patches that are skipped if nothing changed.
package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quoin-dev/quoin/internal/freshness"
)

// Client reads from a cache and writes to the Kubernetes API server. A Get never returns an object
// that is older than the last write of this process.
//
// A controller that decides on a copy from before its own last write may undo that write: restore an
// old image, start a rollout again. Client therefore records the resource version of each write
// until the cache has caught up, and reads the Kubernetes API server in between.
type Client struct {
	client.Client
	live    client.Reader
	owner   client.FieldOwner
	tracker *freshness.Tracker
}

// NewClient wraps a cached client. live reads the Kubernetes API server; manager is the field
// manager of every write.
func NewClient(cached client.Client, live client.Reader, manager string) *Client {
	return &Client{
		Client:  client.WithFieldOwner(cached, manager),
		live:    live,
		owner:   client.FieldOwner(manager),
		tracker: freshness.New(clock.RealClock{}),
	}
}

// As returns a client that writes under another field manager and shares the record of writes.
func (c *Client) As(manager string) *Client {
	return &Client{
		Client:  client.WithFieldOwner(c.Client, manager),
		live:    c.live,
		owner:   client.FieldOwner(manager),
		tracker: c.tracker,
	}
}

// Live returns a reader of the Kubernetes API server.
func (c *Client) Live() client.Reader { return c.live }

// Tracker returns the record of writes.
func (c *Client) Tracker() *freshness.Tracker { return c.tracker }

// Expect begins to wait for events of an object that is about to be written.
func (c *Client) Expect(obj client.Object) *freshness.Wait {
	return c.tracker.Expect(c.id(obj, client.ObjectKeyFromObject(obj)))
}

// Get reads an object from the cache, or from the Kubernetes API server while the cache is behind a
// write of this process.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	cached := ""
	if err == nil {
		cached = obj.GetResourceVersion()
	}
	id := c.id(obj, key)
	if !c.tracker.Behind(id, cached) {
		return err
	}
	err = c.live.Get(ctx, key, obj, opts...)
	if apierrors.IsNotFound(err) {
		c.tracker.Forget(id)
	}
	return err
}

// Create creates an object and records the write.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.record(obj, c.Client.Create(ctx, obj, opts...))
}

// Update replaces an object and records the write.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.record(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch changes an object and records the write.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.record(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Status returns a writer of statuses that records its writes.
func (c *Client) Status() client.SubResourceWriter {
	return &statusWriter{SubResourceWriter: c.Client.Status(), client: c}
}

func (c *Client) record(obj client.Object, err error) error {
	if err == nil {
		c.tracker.Wrote(c.id(obj, client.ObjectKeyFromObject(obj)), obj.GetResourceVersion())
	}
	return err
}

func (c *Client) id(obj runtime.Object, key client.ObjectKey) freshness.ID {
	return freshness.ID{Kind: c.KindOf(obj), Key: key}
}

// KindOf returns the kind of an object; the zero value for one outside of the scheme, which this
// client cannot read or write.
func (c *Client) KindOf(obj runtime.Object) schema.GroupKind {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return schema.GroupKind{}
	}
	return gvk.GroupKind()
}

type statusWriter struct {
	client.SubResourceWriter
	client *Client
}

// Update replaces a status and records the write.
func (w *statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return w.client.record(obj, w.SubResourceWriter.Update(ctx, obj, opts...))
}

// Patch changes a status and records the write.
func (w *statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return w.client.record(obj, w.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}
