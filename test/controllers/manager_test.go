package controllers_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// TestStopInManager: with caches, watches and indexes as in the real process, failures in the
// statuses of deployments stop a version, and neither a scan nor a timer is needed for it. The test does not run in parallel: its controllers see
// the objects of all worlds.
func TestStopInManager(t *testing.T) {
	w := newWorld(t, 1)
	channel := w.channel()
	channel.Spec.Suspend = yes() // no scans
	w.create(channel)
	broken := v1alpha1.ChannelVersion{Version: "1.2.4", Image: "cube:v1.2.4", Digest: "sha256:4"}
	w.patchStatusOf(channel, func() { channel.Status.Versions = []v1alpha1.ChannelVersion{broken} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- controllers.Run(ctx, apitest.Server(t), manager.Options{Metrics: server.Options{BindAddress: "0"}}, controllers.Config{
			Namespace: w.name, Image: "quoin:test", Concurrency: 2, MaxRollouts: 1,
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	for _, name := range []string{"one", "two", "three"} {
		d := w.deployment(name) // without an account, so nothing else happens to it
		w.create(d)
		w.patchStatusOf(d, func() {
			d.Status.Failures = []v1alpha1.FailedVersion{{Version: "1.2.4", Image: "cube:v1.2.4@sha256:4", Time: metav1.Now()}}
		})
	}
	api, err := client.New(apitest.Server(t), client.Options{Scheme: w.api.Scheme()}) // that of the world has a cache
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		current := &v1alpha1.ReleaseChannel{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(channel), current); err != nil {
			t.Fatal(err)
		}
		if current.Status.StoppedVersion == "1.2.4" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not stopped: %+v", current.Status)
		}
	}
}

// patchStatusOf changes the status of an object as a controller does.
func (w *world) patchStatusOf(obj client.Object, change func()) {
	w.t.Helper()
	before, _ := obj.DeepCopyObject().(client.Object)
	change()
	if err := w.api.Status().Patch(w.ctx, obj, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}
