package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	namespace = "bench"
	channel   = "bench"
	model     = "model"
)

// fleet is the deployments and their workloads, as a watch shows them.
type fleet struct {
	options
	registry string
	api      client.Client
	apps     *kubernetes.Clientset

	mu      sync.Mutex
	members map[string]*member
	offers  map[string]time.Time // when the channel first showed a version
	wanted  state                // what is waited for; nil for nothing
	there   int                  // how many are as wanted
	last    time.Time            // when the last of them got there
}

// member is a deployment with its workload.
type member struct {
	deployment *v1alpha1.Deployment
	workload   *appsv1.Deployment
	there      bool
}

// state tells whether a deployment and its workload are as wanted.
type state func(*v1alpha1.Deployment, *appsv1.Deployment) bool

func (m *member) is(s state) bool {
	return s != nil && m.deployment != nil && m.workload != nil && s(m.deployment, m.workload)
}

// newFleet starts the watch.
func newFleet(ctx context.Context, c *cluster, o options) (*fleet, error) {
	scheme, err := controllers.Scheme()
	if err != nil {
		return nil, err
	}
	f := &fleet{
		options: o, registry: c.registry,
		members: map[string]*member{}, offers: map[string]time.Time{},
	}
	for i := range o.deployments {
		f.members[nameOf(i)] = &member{}
	}
	if f.api, err = client.New(c.config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	binary := rest.CopyConfig(c.config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if f.apps, err = kubernetes.NewForConfig(binary); err != nil {
		return nil, err
	}
	watched, err := cache.New(c.config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	for _, obj := range []client.Object{&v1alpha1.ReleaseChannel{}, &v1alpha1.Deployment{}, &appsv1.Deployment{}} {
		informer, err := watched.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    f.see,
			UpdateFunc: func(_, obj any) { f.see(obj) },
		}); err != nil {
			return nil, err
		}
	}
	go func() { _ = watched.Start(ctx) }() // ends with the context
	if !watched.WaitForCacheSync(ctx) {
		return nil, errors.New("the watch does not start")
	}
	return f, nil
}

// see takes note of an object.
func (f *fleet) see(obj any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch obj := obj.(type) {
	case *v1alpha1.ReleaseChannel:
		if _, known := f.offers[obj.Status.LatestVersion]; !known {
			f.offers[obj.Status.LatestVersion] = time.Now()
		}
	case *v1alpha1.Deployment:
		if m := f.members[obj.Name]; m != nil {
			m.deployment = obj
			f.judge(m)
		}
	case *appsv1.Deployment:
		if m := f.members[obj.Labels[v1alpha1.LabelDeployment]]; m != nil {
			m.workload = obj
			f.judge(m)
		}
	}
}

// judge counts a member that has changed.
func (f *fleet) judge(m *member) {
	is := m.is(f.wanted)
	switch {
	case is && !m.there:
		f.there++
		f.last = time.Now()
	case !is && m.there:
		f.there--
	}
	m.there = is
}

// create makes an account, a channel and the deployments.
func (f *fleet) create(ctx context.Context) error {
	interval := metav1.Duration{Duration: time.Second}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{
			ObjectMeta: metav1.ObjectMeta{Name: "bench"},
			Spec:       v1alpha1.AccountSpec{Host: "bench.example.com", Namespace: namespace},
		},
		&v1alpha1.ReleaseChannel{
			ObjectMeta: metav1.ObjectMeta{Name: channel},
			Spec:       v1alpha1.ReleaseChannelSpec{ImageRepository: f.registry + "/" + repository, Interval: &interval},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: model},
			Data:       map[string]string{"orders.yml": "cubes:\n  - name: orders\n    sql_table: public.orders\n"},
		},
	} {
		if err := f.api.Create(ctx, obj); err != nil {
			return err
		}
	}
	return f.each(ctx, f.workers, func(ctx context.Context, name string) error {
		return f.api.Create(ctx, &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1alpha1.DeploymentSpec{
				ReleaseChannel: channel, Size: v1alpha1.SizeShared, Replicas: ptr.To[int32](1),
				Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: model}},
			},
		})
	})
}

// patch brings an image to all workloads.
func (f *fleet) patch(ctx context.Context, image string, workers int) error {
	return f.each(ctx, workers, func(ctx context.Context, name string) error {
		f.mu.Lock()
		w := f.members[name].workload
		f.mu.Unlock()
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`,
			w.Spec.Template.Spec.Containers[0].Name, image)
		_, err := f.apps.AppsV1().Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// each calls do for every deployment.
func (f *fleet) each(ctx context.Context, workers int, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range f.deployments {
		group.Go(func() error { return do(ctx, nameOf(i)) })
	}
	return group.Wait()
}

func nameOf(i int) string { return fmt.Sprintf("sales-%04d", i) }

// offered is when the channel first showed a version.
func (f *fleet) offered(version string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offers[version]
}

// runs tells whether Quoin says that a deployment runs a version, and its workload does.
func (f *fleet) runs(version string) state {
	image := fmt.Sprintf("%s/%s:v%s@", f.registry, repository, version)
	return func(d *v1alpha1.Deployment, w *appsv1.Deployment) bool {
		return d.Status.CurrentVersion == version && d.Status.ObservedGeneration == d.Generation &&
			meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) &&
			strings.HasPrefix(w.Spec.Template.Spec.Containers[0].Image, image) && rolledOut(w)
	}
}

// holds tells whether a workload has an image.
func (f *fleet) holds(image string) state {
	return func(_ *v1alpha1.Deployment, w *appsv1.Deployment) bool {
		return w.Spec.Template.Spec.Containers[0].Image == image && rolledOut(w)
	}
}

// rolledOut tells whether every pod is of the newest template and available.
func rolledOut(w *appsv1.Deployment) bool {
	wanted, s := ptr.Deref(w.Spec.Replicas, 1), w.Status
	return s.ObservedGeneration >= w.Generation && s.Replicas == wanted && s.UpdatedReplicas == wanted && s.AvailableReplicas == wanted
}

// await waits until every deployment is as wanted, and returns when that was. what says it in words.
func (f *fleet) await(ctx context.Context, what string, wanted state) (time.Time, error) {
	const (
		look   = 50 * time.Millisecond
		report = 5 * time.Second
	)
	f.want(wanted)
	start, reported := time.Now(), time.Now()
	for {
		there, last := f.progress()
		if there == f.deployments {
			return last, nil
		}
		if f.verbose && time.Since(reported) >= report {
			say("%d of %d are %s", there, f.deployments, what)
			reported = time.Now()
		}
		if time.Since(start) > f.patience {
			return last, fmt.Errorf("%d of %d are %s after %s; %s", there, f.deployments, what, f.patience, f.describe())
		}
		process.Pause(ctx, look)
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
	}
}

func (f *fleet) want(wanted state) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = wanted
	for _, m := range f.members {
		f.judge(m)
	}
}

func (f *fleet) progress() (int, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.there, f.last
}

// describe says how a deployment is that is not as wanted.
func (f *fleet) describe() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, m := range f.members {
		switch {
		case m.there:
			continue
		case m.deployment == nil:
			return fmt.Sprintf("%q was not made", name)
		}
		text := fmt.Sprintf("%q runs %q", name, m.deployment.Status.CurrentVersion)
		if c := meta.FindStatusCondition(m.deployment.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			text += fmt.Sprintf(", Ready is %s: %s", c.Status, c.Message)
		}
		return text
	}
	return ""
}
