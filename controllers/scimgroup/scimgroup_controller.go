// Package scimgroup reconciles ScimGroups: it claims the display name, counts the members and reports
// members that do not exist.
//
// # Chunks
//
// The members of a large group that is provisioned over SCIM are in ScimMemberChunks, which are immutable and
// named by a hash of their content, except for the last changes, which are in the group. A writer of a group creates the new chunks and then swaps the
// references in one update; the Collector deletes unreferenced chunks. It must not delete a chunk between
// a writer's decision to reuse it and the writer's update. This protocol ensures that:
//
//   - To refer to a chunk that the group, as it was read, does not refer to, a writer creates the chunk.
//     If it exists, the writer patches its annotation v1alpha1.AnnotationUsed to a new value, and creates
//     it if the patch returns NotFound. Each of these changes the resource version of the chunk.
//   - The writer then updates the group with the resource version that it has read, within
//     UnusedGracePeriod of the create or patch. On a conflict it starts again with the current group.
//   - The Collector deletes a chunk that has been unreferenced at the same resource version for longer
//     than UnusedGracePeriod. Before that it checks the references in the API server, and it deletes with
//     UID and resource version as preconditions.
//
// So a patch before the deletion makes the deletion fail, and a patch after it returns NotFound and the
// chunk is created again. Existing references need no patch: if another writer removes one, the update of
// the group conflicts.
package scimgroup

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-scimgroup"

// Changes of a group are batched: clients add members one at a time. Each reconciliation reads all members, and its status
// makes the write of a client that has read the group before conflict.
const (
	// batchInterval is the interval between two reconciliations of a large group, and the delay between
	// the creation or deletion of a member and the reconciliation of its groups.
	batchInterval = 5 * time.Second
	// smallInterval is the interval between two reconciliations of a group with less than largeGroup members.
	smallInterval = time.Second
	largeGroup    = 1000
)

type scope = reconciler.Scope[*v1alpha1.ScimGroup]

type groupReconciler struct {
	mu sync.Mutex
	// counted is the time when the members of a group were last counted.
	counted map[client.ObjectKey]time.Time
}

// New returns the reconciler of ScimGroups.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.ScimGroup] {
	r := &groupReconciler{counted: map[client.ObjectKey]time.Time{}}
	return &reconciler.Reconciler[*v1alpha1.ScimGroup]{
		Client: c.As(FieldManager), Recorder: scim.Warnings(recorder), Clock: clk,
		New:    func() *v1alpha1.ScimGroup { return &v1alpha1.ScimGroup{} },
		Work:   r.work,
		Forget: func(_ context.Context, key client.ObjectKey) { r.forget(key) },
	}
}

// work performs the steps in order. Members are last, because they are expensive.
func (r *groupReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	g := s.Object
	if lost := g.LostRemovedMembers(); len(lost) > 0 {
		return *scim.Restore(ctx, s, func(g *v1alpha1.ScimGroup) { g.Spec.RemovedMembers = lost })
	}
	stored := g.Status.RemovedMembers
	g.Status.RemovedMembers = nil
	if v1alpha1.HasSCIMWrite(g) {
		g.Status.RemovedMembers = slices.Clone(g.Spec.RemovedMembers)
	}
	g.Status.LastModified = new(metav1.NewTime(lastmodified.Of(g)))
	reportRemoved(g)
	undeclared, o := scim.Admit(ctx, s, claims.GroupName, "Group", g.Spec.Extensions)
	if o == nil && slices.Equal(g.Status.RemovedMembers, stored) { // removed members are stored at once, so that a replacement does not undo their removal
		o = r.throttle(s)
	}
	if o != nil {
		return *o
	}
	found, o := observe(ctx, s)
	if o != nil {
		return *o
	}
	cycle, err := findCycle(ctx, s.Client, g, found.groups)
	if err != nil {
		return reconciler.Failed(err)
	}
	roles, err := scim.UnknownRoles(ctx, s.Client, g.Namespace, g.Spec.AccountRoles)
	if err != nil {
		return reconciler.Failed(err)
	}
	found.report(g)
	r.setCounted(s)
	done := reconciler.Done("The group is in effect")
	for _, note := range []string{undeclared, cycle, roles} {
		if note != "" {
			done = done.WithDetail(note)
		}
	}
	return done
}

// throttle requeues a group whose members were counted recently. Until then the
// observedGeneration shows that the status is outdated.
func (r *groupReconciler) throttle(s *scope) *reconciler.Outcome {
	g := s.Object
	if g.Status.ObservedGeneration == g.Generation {
		return nil // triggered by a delayed watch
	}
	interval := smallInterval
	if g.Spec.Size() >= largeGroup {
		interval = batchInterval
	}
	key, now := client.ObjectKeyFromObject(g), s.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if rest := r.counted[key].Add(interval).Sub(now); rest > 0 {
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, "The members are being counted").Transient().RequeueIn(rest)
		return &o
	}
	return nil
}

func (r *groupReconciler) setCounted(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[client.ObjectKeyFromObject(s.Object)] = s.Clock.Now()
}

func (r *groupReconciler) forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.counted, key)
}
