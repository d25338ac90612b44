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

// fleet tracks the deployments and their workloads with informers.
type fleet struct {
	options
	registry string
	api      client.Client
	apps     *kubernetes.Clientset

	mu      sync.Mutex
	members map[string]*member
	offers  map[string]time.Time // when the channel first showed a version
	goal    condition            // what await waits for; nil for nothing
	reached int                  // number of members that meet the goal
	last    time.Time            // when the last of them met it
}

// member is a deployment with its workload.
type member struct {
	deployment *v1alpha1.Deployment
	workload   *appsv1.Deployment
	reached    bool
}

// condition reports whether a deployment and its workload are in a state.
type condition func(*v1alpha1.Deployment, *appsv1.Deployment) bool

func (m *member) meets(c condition) bool {
	return c != nil && m.deployment != nil && m.workload != nil && c(m.deployment, m.workload)
}

// newFleet starts the informers.
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
			AddFunc:    f.observe,
			UpdateFunc: func(_, obj any) { f.observe(obj) },
		}); err != nil {
			return nil, err
		}
	}
	go func() { _ = watched.Start(ctx) }() // ends with the context
	if !watched.WaitForCacheSync(ctx) {
		return nil, errors.New("the informers do not sync")
	}
	return f, nil
}

// observe stores an object that an informer delivers.
func (f *fleet) observe(obj any) {
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
			f.count(m)
		}
	case *appsv1.Deployment:
		if m := f.members[obj.Labels[v1alpha1.LabelDeployment]]; m != nil {
			m.workload = obj
			f.count(m)
		}
	}
}

// count updates the counter after a member or the goal has changed.
func (f *fleet) count(m *member) {
	reached := m.meets(f.goal)
	switch {
	case reached && !m.reached:
		f.reached++
		f.last = time.Now()
	case !reached && m.reached:
		f.reached--
	}
	m.reached = reached
}

// create creates an account, a channel and the deployments.
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

// patch sets the image of all workloads. As many of them roll out at a time as Quoin may; all with -limit 0.
func (f *fleet) patch(ctx context.Context, image string) error {
	f.setGoal(f.hasImage(image))
	concurrent := f.limit
	if concurrent == 0 {
		concurrent = f.workers
	}
	return f.each(ctx, concurrent, func(ctx context.Context, name string) error {
		f.mu.Lock()
		w := f.members[name].workload
		f.mu.Unlock()
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`,
			w.Spec.Template.Spec.Containers[0].Name, image)
		_, err := f.apps.AppsV1().Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil || f.limit == 0 {
			return err
		}
		return f.awaitMember(ctx, name)
	})
}

// awaitMember waits until a deployment meets the goal.
func (f *fleet) awaitMember(ctx context.Context, name string) error {
	const pollInterval = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	for {
		f.mu.Lock()
		reached := f.members[name].reached
		f.mu.Unlock()
		if reached {
			return nil
		}
		process.Pause(ctx, pollInterval)
		if ctx.Err() != nil {
			return fmt.Errorf("%q was not rolled out: %w", name, ctx.Err())
		}
	}
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

// firstOffered returns when the channel first showed a version.
func (f *fleet) firstOffered(version string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offers[version]
}

// runs returns the condition that a Deployment reports a version as current and its workload runs it.
func (f *fleet) runs(version string) condition {
	image := fmt.Sprintf("%s/%s:v%s@", f.registry, repository, version)
	return func(d *v1alpha1.Deployment, w *appsv1.Deployment) bool {
		return d.Status.CurrentVersion == version && d.Status.ObservedGeneration == d.Generation &&
			meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) &&
			strings.HasPrefix(w.Spec.Template.Spec.Containers[0].Image, image) && rolledOut(w)
	}
}

// hasImage returns the condition that a workload runs an image.
func (f *fleet) hasImage(image string) condition {
	return func(_ *v1alpha1.Deployment, w *appsv1.Deployment) bool {
		return w.Spec.Template.Spec.Containers[0].Image == image && rolledOut(w)
	}
}

// rolledOut reports whether every pod has the newest template and is available.
func rolledOut(w *appsv1.Deployment) bool {
	replicas, s := ptr.Deref(w.Spec.Replicas, 1), w.Status
	return s.ObservedGeneration >= w.Generation && s.Replicas == replicas && s.UpdatedReplicas == replicas && s.AvailableReplicas == replicas
}

// await waits until every deployment meets a condition, and returns when the last one met it. what describes the
// condition.
func (f *fleet) await(ctx context.Context, what string, goal condition) (time.Time, error) {
	const (
		pollInterval   = 50 * time.Millisecond
		reportInterval = 5 * time.Second
	)
	f.setGoal(goal)
	start, reported := time.Now(), time.Now()
	for {
		reached, last := f.state()
		if reached == f.deployments {
			return last, nil
		}
		if f.verbose && time.Since(reported) >= reportInterval {
			progress("%d of %d are %s", reached, f.deployments, what)
			reported = time.Now()
		}
		if time.Since(start) > f.timeout {
			return last, fmt.Errorf("%d of %d are %s after %s; %s", reached, f.deployments, what, f.timeout, f.describe())
		}
		process.Pause(ctx, pollInterval)
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
	}
}

func (f *fleet) setGoal(goal condition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.goal = goal
	for _, m := range f.members {
		f.count(m)
	}
}

// state returns how many members meet the goal, and when the last one met it.
func (f *fleet) state() (int, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached, f.last
}

// describe describes a deployment that does not meet the goal.
func (f *fleet) describe() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, m := range f.members {
		switch {
		case m.reached:
			continue
		case m.deployment == nil:
			return fmt.Sprintf("%q was not created", name)
		}
		text := fmt.Sprintf("%q runs %q", name, m.deployment.Status.CurrentVersion)
		if c := meta.FindStatusCondition(m.deployment.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			text += fmt.Sprintf(", Ready is %s: %s", c.Status, c.Message)
		}
		return text
	}
	return ""
}
