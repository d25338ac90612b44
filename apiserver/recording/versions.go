package recording

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Versions records rollouts: completed and rolled-back versions. It also adds the number of a deployment to the
// event of its creation through the Kubernetes API, which is recorded before the number is issued. Every replica
// does so; events have deterministic ids, so each is stored once.
type Versions struct {
	// Log stores the events.
	Log Log
	// Deployments is the informer of Deployments.
	Deployments cache.SharedIndexInformer
	// Reader reads Accounts. It must have the index tenant.IndexNamespace.
	Reader client.Reader
	// Now is the clock.
	Now func() time.Time
}

// remembered is the maximum age of a rollout that is recorded: the longest tolerated downtime of the
// API server. Older rollouts have been recorded, and their events may have expired already.
const remembered = 24 * time.Hour

// Start watches Deployments until the context ends.
func (v *Versions) Start(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{})
	add := func(o any) {
		if key, err := cache.ObjectToName(o); err == nil {
			queue.Add(key)
		}
	}
	registration, err := v.Deployments.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o) },
	})
	if err != nil {
		return fmt.Errorf("watch deployments: %w", err)
	}
	defer func() { _ = v.Deployments.RemoveEventHandler(registration) }() // the informer may have ended
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	known := map[uuid.UUID]time.Time{}
	for {
		key, ended := queue.Get()
		if ended {
			return nil
		}
		if err := v.record(ctx, key, known); err != nil {
			log.FromContext(ctx).Error(err, "Failed to record a rollout in the audit log; retrying", "namespace", key.Namespace, "name", key.Name)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// record stores the events of a deployment that this process has not stored yet.
func (v *Versions) record(ctx context.Context, key cache.ObjectName, known map[uuid.UUID]time.Time) error {
	o, exists, err := v.Deployments.GetStore().GetByKey(key.String())
	d, ok := o.(*v1alpha1.Deployment)
	if err != nil || !exists || !ok {
		return err
	}
	account, err := tenant.Of(ctx, v.Reader, d.Namespace)
	if err != nil || !IsOn(account) {
		return client.IgnoreNotFound(ignoreNoAccount(err))
	}
	since := v.Now().Add(-remembered)
	for id, at := range known {
		if at.Before(since) {
			delete(known, id)
		}
	}
	if err := v.identify(ctx, account.Name, d, since, known); err != nil {
		return err
	}
	for _, e := range rollouts(d) {
		// A rollout before the creation is that of a deployment from a backup, in whose audit log it is
		// recorded with the UID of that time.
		if _, is := known[e.ID]; is || e.Time.Before(since) || e.Time.Before(d.CreationTimestamp.Time) {
			continue
		}
		e.Account = account.Name
		if err := v.Log.Record(ctx, e); err != nil {
			return err
		}
		known[e.ID] = e.Time
	}
	return nil
}

// identify adds the number of a deployment to the event of its creation.
func (v *Versions) identify(ctx context.Context, account string, d *v1alpha1.Deployment, since time.Time, known map[uuid.UUID]time.Time) error {
	id, created := creationOf(d.UID), d.CreationTimestamp.Time
	if _, is := known[id]; is || d.Labels[v1alpha1.LabelID] == "" || created.Before(since) {
		return nil
	}
	if err := v.Log.Identify(ctx, account, id, ObjectOf(d), DeploymentOf(d)); err != nil {
		return err
	}
	known[id] = created
	return nil
}

// rollouts returns the events of the rollouts in the status of a deployment, newest first.
func rollouts(d *v1alpha1.Deployment) []audit.Event {
	event := func(name, what string, at time.Time, changes map[string]any) audit.Event {
		data, _ := encode(changes) // of strings: it does not fail
		return audit.Event{
			ID:   uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %s %s", d.UID, name, what, at.UTC().Format(time.RFC3339))),
			Time: at, Name: name, Outcome: audit.Succeeded, Source: audit.SourceController,
			Actor:      audit.Actor{Kind: audit.ActorSystem, ID: "quoin-controller"},
			Deployment: DeploymentOf(d),
			Object:     ObjectOf(d),
			Changes:    data,
		}
	}
	var events []audit.Event
	for i, run := range d.Status.History {
		change := map[string]any{"after": run.Version, "image": run.Pinned()}
		if i+1 < len(d.Status.History) {
			change["before"] = d.Status.History[i+1].Version
		}
		events = append(events, event(audit.RolledDeployment, run.Pinned(), run.CompletionTime.Time, map[string]any{"version": change}))
	}
	// status.failed is removed when the deployment has another target, which may be at once. It is read
	// too because earlier releases of the controller do not write status.failures; the ids are equal.
	failures := d.Status.Failures
	if f := d.Status.Failed; f != nil {
		failures = append([]v1alpha1.FailedVersion{{Version: f.Version.Version, Image: f.Version.Pinned(), Message: f.Message, Time: f.Time}}, failures...)
	}
	for _, f := range failures {
		events = append(events, event(audit.RolledBackDeployment, f.Image, f.Time.Time, map[string]any{
			"version": map[string]any{"before": f.Version, "after": d.Status.CurrentVersion}, "message": f.Message,
		}))
	}
	return events
}
