// Package kube is how the controllers read and write Kubernetes objects: reads that never
// forget this process's own writes, server-side apply that writes only what differs, and
// status patches that are skipped when nothing changed.
package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client reads from a cache and writes to the API server, and never answers a Get with an
// object older than what this process has written of it.
//
// The cache lags behind the writes that fill it. A controller that decides on a copy from
// before its own last write may undo it: put an image back, start a rollout again. So the
// resource version of each write is remembered until the cache has caught up, and a Get in
// between is answered by the API server.
type Client struct {
	client.Client
	live   client.Reader
	owner  client.FieldOwner
	writes *writes
}

// NewClient wraps a cached client. live reads the API server itself; manager is the field
// manager of every write.
func NewClient(cached client.Client, live client.Reader, manager string) *Client {
	return &Client{
		Client: client.WithFieldOwner(cached, manager),
		live:   live,
		owner:  client.FieldOwner(manager),
		writes: newWrites(),
	}
}

// As returns a client that writes under another field manager and shares the memory of writes.
func (c *Client) As(manager string) *Client {
	return &Client{
		Client: client.WithFieldOwner(c.Client, manager),
		live:   c.live,
		owner:  client.FieldOwner(manager),
		writes: c.writes,
	}
}

// Live reads the API server itself.
func (c *Client) Live() client.Reader { return c.live }

// Get reads an object from the cache, or from the API server while the cache is behind a
// write of this process.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	seen := ""
	if err == nil {
		seen = obj.GetResourceVersion()
	}
	if !c.writes.behind(c.id(obj, key), seen) {
		return err
	}
	err = c.live.Get(ctx, key, obj, opts...)
	if apierrors.IsNotFound(err) {
		// What was written has been deleted since.
		c.writes.forget(c.id(obj, key))
	}
	return err
}

// Create creates an object and remembers it.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.remember(obj, c.Client.Create(ctx, obj, opts...))
}

// Update replaces an object and remembers it.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.remember(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch changes an object and remembers it.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.remember(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Status returns a writer of statuses that remembers too.
func (c *Client) Status() client.SubResourceWriter {
	return &statusWriter{SubResourceWriter: c.Client.Status(), client: c}
}

func (c *Client) remember(obj client.Object, err error) error {
	if err == nil {
		c.writes.remember(c.id(obj, client.ObjectKeyFromObject(obj)), obj.GetResourceVersion())
	}
	return err
}

func (c *Client) id(obj runtime.Object, key client.ObjectKey) writeID {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		// An object outside the scheme cannot have been read or written by this client.
		return writeID{key: key}
	}
	return writeID{kind: gvk.GroupKind(), key: key}
}

type statusWriter struct {
	client.SubResourceWriter
	client *Client
}

// Update replaces a status and remembers it.
func (w *statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return w.client.remember(obj, w.SubResourceWriter.Update(ctx, obj, opts...))
}

// Patch changes a status and remembers it.
func (w *statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return w.client.remember(obj, w.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}
