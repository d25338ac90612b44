// Package recording records the writes to objects of a namespace.
package recording

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Recording records every write to the objects of some kinds in a namespace. Polling would miss short states. All kinds are in
// one etcd, so resource versions order the writes across kinds.
type Recording struct {
	api       client.Client
	namespace string

	stop    context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	first  Snapshot
	frames []frame
	broken error
}

// frame is one write.
type frame struct {
	object  client.Object
	version uint64
	deleted bool
}

// Start starts a recording of the Quoin Deployments of a namespace and of the objects in the lists.
func Start(ctx context.Context, api client.WithWatch, namespace string, lists ...client.ObjectList) *Recording {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &Recording{api: api, namespace: namespace, stop: cancel, first: Snapshot{}}
	DeferCleanup(cancel)
	for _, list := range append(lists, &v1alpha1.DeploymentList{}) {
		Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			object, _ := o.(client.Object)
			f.first[keyOf(object)] = object
			return nil
		})).To(Succeed())
		w, err := api.Watch(ctx, list, &client.ListOptions{
			Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()},
		})
		Expect(err).NotTo(HaveOccurred())
		f.watches.Go(func() { f.follow(ctx, w) })
	}
	return f
}

func (f *Recording) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				f.mu.Lock()
				f.broken = fmt.Errorf("a watch ended: %v", event.Object)
				f.mu.Unlock()
				return
			}
			f.add(event.Object, event.Type == watch.Deleted)
		}
	}
}

func (f *Recording) add(o runtime.Object, deleted bool) {
	object, _ := o.(client.Object)
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames = append(f.frames, frame{object, version, deleted})
}

// Play stops the recording and calls visit with the state after every write, in order.
func (f *Recording) Play(ctx context.Context, visit func(m Snapshot)) {
	GinkgoHelper()
	f.catchUp(ctx)
	f.stop()
	f.watches.Wait()
	Expect(f.broken).NotTo(HaveOccurred())
	slices.SortStableFunc(f.frames, func(a, b frame) int { return cmp.Compare(a.version, b.version) })
	m := f.first
	for _, shot := range f.frames {
		if shot.deleted {
			delete(m, keyOf(shot.object))
		} else {
			m[keyOf(shot.object)] = shot.object
		}
		visit(m)
	}
}

// catchUp waits until the recording has the current Deployments: watches lag behind.
func (f *Recording) catchUp(ctx context.Context) {
	GinkgoHelper()
	list := &v1alpha1.DeploymentList{}
	Expect(f.api.List(ctx, list, client.InNamespace(f.namespace))).To(Succeed())
	Eventually(ctx, func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range list.Items {
			version := list.Items[i].ResourceVersion
			first := f.first[keyOf(&list.Items[i])]
			if (first == nil || first.GetResourceVersion() != version) &&
				!slices.ContainsFunc(f.frames, func(shot frame) bool { return shot.object.GetResourceVersion() == version }) {
				return list.Items[i].Name
			}
		}
		return ""
	}).Should(BeEmpty(), "not in the recording yet")
}

func keyOf(object client.Object) string { return fmt.Sprintf("%T/%s", object, object.GetName()) }

// Snapshot is the state between two writes.
type Snapshot map[string]client.Object

// Deployments returns the Quoin Deployments of the snapshot, by name.
func (m Snapshot) Deployments() map[string]*v1alpha1.Deployment {
	found := map[string]*v1alpha1.Deployment{}
	for _, object := range m {
		if d, ok := object.(*v1alpha1.Deployment); ok {
			found[d.Name] = d
		}
	}
	return found
}

// Environments returns the Environments of the snapshot, by name.
func (m Snapshot) Environments() map[string]*v1alpha1.Environment {
	found := map[string]*v1alpha1.Environment{}
	for _, object := range m {
		if env, ok := object.(*v1alpha1.Environment); ok {
			found[env.Name] = env
		}
	}
	return found
}

// Pods counts the pods that are not terminating, by the tag of their image.
func (m Snapshot) Pods() (all, ready map[string]int) {
	all, ready = map[string]int{}, map[string]int{}
	for _, object := range m {
		pod, ok := object.(*corev1.Pod)
		if !ok || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		all[Tag(pod.Spec)]++
		if IsReady(pod) {
			ready[Tag(pod.Spec)]++
		}
	}
	return all, ready
}

// Tag returns the tag of the image of a pod.
func Tag(pod corev1.PodSpec) string {
	image, _, _ := strings.Cut(pod.Containers[0].Image, "@")
	return image[strings.LastIndex(image, ":")+1:]
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
