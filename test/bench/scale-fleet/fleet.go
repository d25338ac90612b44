package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// fleet follows the deployments, and reports their workloads as available.
type fleet struct {
	server *controlplane.APIServer
	n      int
	// changed are workloads whose status has to be written.
	changed chan *appsv1.Deployment

	mu sync.Mutex
	// versions are the versions of deployments that are ready.
	versions map[types.UID]string
	// last is an error of a write, for the message of a timeout.
	last error
}

// newFleet starts the informers and the writers.
func newFleet(ctx context.Context, server *controlplane.APIServer, n int) (*fleet, error) {
	const writers = 8
	f := &fleet{server: server, n: n, changed: make(chan *appsv1.Deployment, 4*n), versions: map[types.UID]string{}}
	watched, err := cache.New(server.Config(), cache.Options{Scheme: server.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	deployments, err := watched.GetInformer(ctx, &v1alpha1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	workloads, err := watched.GetInformer(ctx, &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	for informer, observe := range map[cache.Informer]func(any){deployments: f.observe, workloads: f.enqueue} {
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    observe,
			UpdateFunc: func(_, obj any) { observe(obj) },
		}); err != nil {
			return nil, err
		}
	}
	for range writers {
		go f.report(ctx)
	}
	go func() { _ = watched.Start(ctx) }() // ends with the context
	if !watched.WaitForCacheSync(ctx) {
		return nil, errors.New("the informers do not sync")
	}
	return f, nil
}

// observe stores the version of a deployment that is ready.
func (f *fleet) observe(obj any) {
	d, ok := obj.(*v1alpha1.Deployment)
	if !ok {
		return
	}
	version := ""
	if d.Status.ObservedGeneration == d.Generation && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) {
		version = d.Status.CurrentVersion
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[d.UID] = version
}

// enqueue enqueues a workload that has changed.
func (f *fleet) enqueue(obj any) {
	if w, ok := obj.(*appsv1.Deployment); ok && w.Status.ObservedGeneration != w.Generation {
		f.changed <- w
	}
}

// report writes the status that workloads have when all pods are available.
func (f *fleet) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case observed := <-f.changed:
			w, n := observed.DeepCopy(), ptr.Deref(observed.Spec.Replicas, 1)
			w.Status = appsv1.DeploymentStatus{ObservedGeneration: w.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
			if err := f.server.Status().Update(ctx, w); err != nil { // a conflict: its change is enqueued
				f.mu.Lock()
				f.last = err
				f.mu.Unlock()
			}
		}
	}
}

// await waits until all deployments run a version.
func (f *fleet) await(ctx context.Context, version string, timeout time.Duration) error {
	const (
		interval = 50 * time.Millisecond
		report   = 10 * time.Second
	)
	reported := time.Now()
	for deadline := time.Now().Add(timeout); ; process.Pause(ctx, interval) {
		ready, last := f.count(version)
		if ready == f.n {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d deployments run %s after %s (%w)", ready, f.n, version, timeout, last)
		}
		if time.Since(reported) >= report {
			measure.Progress("    %d of %d run %s", ready, f.n, version)
			reported = time.Now()
		}
	}
}

func (f *fleet) count(version string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, v := range f.versions {
		if v == version {
			n++
		}
	}
	return n, f.last
}
