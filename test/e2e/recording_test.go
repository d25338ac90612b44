package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
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

// recording records every write to the objects of some kinds in a namespace. Polling would miss short states. All kinds are in
// one etcd, so resource versions order the writes across kinds.
type recording struct {
	tenant  *tenant
	stop    context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	first  snapshot
	frames []frame
	broken error
}

// frame is one write.
type frame struct {
	object  client.Object
	version uint64
	deleted bool
}

// record starts a recording of the tenant's Quoin Deployments and of the objects in the lists.
func (t *tenant) record(ctx context.Context, lists ...client.ObjectList) *recording {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &recording{tenant: t, stop: cancel, first: snapshot{}}
	DeferCleanup(cancel)
	for _, list := range append(lists, &v1alpha1.DeploymentList{}) {
		Expect(t.all(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			object, _ := o.(client.Object)
			f.first[keyOf(object)] = object
			return nil
		})).To(Succeed())
		w, err := world.api.Watch(ctx, list, &client.ListOptions{
			Namespace: t.name, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()},
		})
		Expect(err).NotTo(HaveOccurred())
		f.watches.Go(func() { f.follow(ctx, w) })
	}
	return f
}

func (f *recording) follow(ctx context.Context, w watch.Interface) {
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

func (f *recording) add(o runtime.Object, deleted bool) {
	object, _ := o.(client.Object)
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames = append(f.frames, frame{object, version, deleted})
}

// play stops the recording and calls visit with the state after every write, in order.
func (f *recording) play(ctx context.Context, visit func(m snapshot)) {
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
func (f *recording) catchUp(ctx context.Context) {
	GinkgoHelper()
	list := &v1alpha1.DeploymentList{}
	Expect(f.tenant.all(ctx, list)).To(Succeed())
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

// snapshot is the state between two writes.
type snapshot map[string]client.Object

// deployments returns the Quoin Deployments of the snapshot, by name.
func (m snapshot) deployments() map[string]*v1alpha1.Deployment {
	found := map[string]*v1alpha1.Deployment{}
	for _, object := range m {
		if d, ok := object.(*v1alpha1.Deployment); ok {
			found[d.Name] = d
		}
	}
	return found
}

// pods counts the pods that are not terminating, by the tag of their image.
func (m snapshot) pods() (all, ready map[string]int) {
	all, ready = map[string]int{}, map[string]int{}
	for _, object := range m {
		pod, ok := object.(*corev1.Pod)
		if !ok || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		all[tagOf(pod.Spec)]++
		if isReady(pod) {
			ready[tagOf(pod.Spec)]++
		}
	}
	return all, ready
}
