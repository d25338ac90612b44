// Package scimgroup reconciles ScimGroups: makes sure that a group's name is its own, counts
// its members, and says which of them do not exist.
//
// # Chunks
//
// The members of a group that is kept over SCIM are in ScimMemberChunks, which are named by
// their content and never change. Who changes a group makes the chunks that are new and then
// swaps the references in one update; what nobody refers to any more is collected here. A
// chunk must not be collected between the moment in which somebody decides to use it again
// and the update that does. That is kept by this protocol:
//
//   - Who wants a group to refer to a chunk that the group, as it was read, does not refer to
//     creates the chunk, or patches its annotation v1alpha1.AnnotationUsed to another value
//     when it is there; and creates it when the patch does not find it. Either changes the
//     chunk's resource version.
//   - It then updates the group with the resource version that was read, within Patience of
//     the create or patch. On a conflict everything begins anew with the group as it is then.
//   - The Collector deletes a chunk that it has seen unreferenced and at one resource version
//     for longer than Patience, after it has asked the API server whether any group refers to
//     it now, with UID and resource version as preconditions.
//
// So a patch before the deletion makes the deletion fail, and a patch after it finds nothing
// and the chunk is made anew. References that were there before need no patch: if somebody
// else removes one meanwhile, the update of the group has a conflict.
package scimgroup

import (
	"context"
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

const (
	// large is the number of members from which on a look at all of them is not for every
	// change: clients add members one by one.
	large = 1000
	// pause is the time between two looks at the members of a large group, and how long after
	// a member came or went the groups that name it are looked at.
	pause = 5 * time.Second
)

type scope = reconciler.Scope[*v1alpha1.ScimGroup]

type groupReconciler struct {
	mu sync.Mutex
	// looked is when the members of a large group were last looked at.
	looked map[client.ObjectKey]time.Time
}

// New returns the reconciler of ScimGroups.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.ScimGroup] {
	r := &groupReconciler{looked: map[client.ObjectKey]time.Time{}}
	return &reconciler.Reconciler[*v1alpha1.ScimGroup]{
		Client: c.As(FieldManager), Recorder: scim.Warnings(recorder), Clock: clk,
		New:    func() *v1alpha1.ScimGroup { return &v1alpha1.ScimGroup{} },
		Work:   r.work,
		Forget: func(_ context.Context, key client.ObjectKey) { r.forget(key) },
	}
}

// work takes the steps in order; members come last, because they are what costs.
func (r *groupReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	g := s.Object
	g.Status.LastModified = new(metav1.NewTime(lastmodified.Of(g)))
	unread, o := scim.Admit(ctx, s, claims.GroupName, "Group", g.Spec.Extensions)
	if o == nil {
		o = r.wait(s)
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
	found.report(g)
	done := reconciler.Done("The group is in effect")
	for _, note := range []string{unread, cycle} {
		if note != "" {
			done = done.WithDetail(note)
		}
	}
	return done
}

// wait puts off a look at the members of a large group that were looked at a moment ago. The
// status says by its observedGeneration that it is of the moment before.
func (r *groupReconciler) wait(s *scope) *reconciler.Outcome {
	g := s.Object
	if size(g) < large || g.Status.ObservedGeneration == g.Generation {
		return nil // small, or called for by a change elsewhere, which has waited already
	}
	key, now := client.ObjectKeyFromObject(g), s.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if rest := r.looked[key].Add(pause).Sub(now); rest > 0 {
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, "The members are being counted").Transient().RequeueIn(rest)
		return &o
	}
	r.looked[key] = now
	return nil
}

func (r *groupReconciler) forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looked, key)
}

// size is the number of members as the references say it.
func size(g *v1alpha1.ScimGroup) int {
	n := len(g.Spec.Members)
	for _, chunk := range g.Spec.MemberChunks {
		n += int(chunk.Count)
	}
	return n
}
