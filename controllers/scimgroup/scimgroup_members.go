package scimgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	typeUser  v1alpha1.ScimMemberType = "User"
	typeGroup v1alpha1.ScimMemberType = "Group"

	// maxNamed is the number of missing members that the condition names.
	maxNamed = 5
)

// member identifies a member.
type member struct {
	kind v1alpha1.ScimMemberType
	name string
}

func memberOf(m *v1alpha1.ScimMember) member {
	if m.Type == typeGroup {
		return member{typeGroup, m.Value}
	}
	return member{typeUser, m.Value}
}

// members is the state of a group's members. The order is that of the spec, so that equal states have
// equal messages.
type members struct {
	visited      map[member]bool
	count        int32
	missing      []string // at most maxNamed
	missingCount int
	groups       []string // existing groups
}

// observe looks up each distinct member of a group in the cache.
func observe(ctx context.Context, s *scope) (*members, *reconciler.Outcome) {
	g := s.Object
	found := &members{visited: make(map[member]bool, g.Spec.Size())}
	if err := found.add(ctx, s.Client, g.Namespace, g.Spec.EffectiveMembers()); err != nil {
		return nil, scim.Failed(err)
	}
	found.skipRemoved(&g.Spec)
	for _, ref := range g.Spec.Chunks() {
		chunk, err := chunkOf(ctx, s.Client, g.Namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			o := reconciler.Stalled(v1alpha1.ReasonChunkMissing, fmt.Sprintf(
				"chunk %q with %d members does not exist; set the members of the group again", ref.Name, ref.Count))
			return nil, &o
		}
		if err == nil {
			err = found.add(ctx, s.Client, g.Namespace, ref.MembersIn(&chunk.Spec))
		}
		if err != nil {
			return nil, scim.Failed(err)
		}
	}
	return found, nil
}

// chunkOf returns a chunk, which must not be modified. Chunks are created just before a group refers to
// them, so a chunk that is not in the cache is read from the API server.
func chunkOf(ctx context.Context, c *kube.Client, namespace, name string) (*v1alpha1.ScimMemberChunk, error) {
	chunk := &v1alpha1.ScimMemberChunk{}
	found, err := scim.Exists(ctx, c, namespace, name, chunk)
	switch {
	case err != nil || found:
	case len(content.IsPathSegmentName(name)) > 0:
		err = apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("scimmemberchunks").GroupResource(), name)
	default:
		err = c.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, chunk)
	}
	return chunk, err
}

// add looks up members.
func (f *members) add(ctx context.Context, c *kube.Client, namespace string, list []v1alpha1.ScimMember) error {
	// One target object for all lookups avoids tens of thousands of allocations.
	into := map[v1alpha1.ScimMemberType]client.Object{typeUser: &v1alpha1.ScimUser{}, typeGroup: &v1alpha1.ScimGroup{}}
	for i := range list {
		m := memberOf(&list[i])
		if f.visited[m] {
			continue
		}
		f.visited[m] = true
		exists, err := scim.Exists(ctx, c, namespace, m.name, into[m.kind])
		switch {
		case err != nil:
			return err
		case !exists:
			f.addMissing(m)
			continue
		case m.kind == typeGroup:
			f.groups = append(f.groups, m.name)
		}
		f.count++
	}
	return nil
}

// skipRemoved makes add skip the members of chunks that memberChanges removes.
func (f *members) skipRemoved(spec *v1alpha1.ScimGroupSpec) {
	_, removed := spec.Changes()
	for _, id := range removed {
		f.visited[member{typeUser, id}], f.visited[member{typeGroup, id}] = true, true
	}
}

func (f *members) addMissing(m member) {
	if f.missingCount++; f.missingCount <= maxNamed {
		f.missing = append(f.missing, fmt.Sprintf("%s %q", strings.ToLower(string(m.kind)), m.name))
	}
}

// report sets the status of the group.
func (f *members) report(g *v1alpha1.ScimGroup) {
	g.Status.MemberCount = f.count
	condition := metav1.Condition{
		Type: v1alpha1.ConditionMembersFound, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMembersFound,
		Message: "All members exist", ObservedGeneration: g.Generation,
	}
	if f.missingCount > 0 {
		text := strings.Join(f.missing, ", ")
		if more := f.missingCount - len(f.missing); more > 0 {
			text = fmt.Sprintf("%s and %d more", text, more)
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMemberNotFound
		condition.Message = reconciler.Clip("Members that do not exist are not counted: "+text, 2048)
	}
	meta.SetStatusCondition(&g.Status.Conditions, condition)
}

// reportRemoved sets the condition MembersRemoved while a SCIM client has removed members that the group
// lists. It names the first of them.
func reportRemoved(g *v1alpha1.ScimGroup) {
	var names []string
	removed := len(g.Spec.Members) - len(g.Spec.ListedMembers())
	if removed == 0 {
		meta.RemoveStatusCondition(&g.Status.Conditions, v1alpha1.ConditionMembersRemoved)
		return
	}
	for _, m := range g.Spec.Members {
		if len(names) < maxNamed && slices.Contains(g.Spec.RemovedMembers, m.Value) {
			names = append(names, fmt.Sprintf("%q", m.Value))
		}
	}
	text := strings.Join(names, ", ")
	if more := removed - len(names); more > 0 {
		text = fmt.Sprintf("%s and %d more", text, more)
	}
	meta.SetStatusCondition(&g.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionMembersRemoved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRemovedOverSCIM,
		Message:            reconciler.Clip("A SCIM client removed members that spec.members lists, and they are not members: "+text, 2048),
		ObservedGeneration: g.Generation,
	})
}
