package scimgroup

import (
	"context"
	"fmt"
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

	// named is how many members that do not exist are named.
	named = 5
)

// member is what a member is recognised by.
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

// members is what was found of a group's members. The order is that of the spec, so that the
// same state is said in the same words.
type members struct {
	seen    map[member]bool
	count   int32
	missing []string // the first of them
	lost    int      // all of them
	groups  []string // those that exist
}

// observe looks at each member of a group once, in the cache.
func observe(ctx context.Context, s *scope) (*members, *reconciler.Outcome) {
	g := s.Object
	found := &members{seen: make(map[member]bool, size(g))}
	if err := found.add(ctx, s.Client, g.Namespace, g.Spec.Members); err != nil {
		return nil, scim.Failed(err)
	}
	for _, ref := range g.Spec.MemberChunks {
		chunk, err := chunkOf(ctx, s.Client, g.Namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			o := reconciler.Stalled(v1alpha1.ReasonChunkMissing, fmt.Sprintf(
				"spec.memberChunks: chunk %q does not exist, and with it %d members; set the group's members anew", ref.Name, ref.Count))
			return nil, &o
		}
		if err == nil {
			err = found.add(ctx, s.Client, g.Namespace, chunk.Spec.Members)
		}
		if err != nil {
			return nil, scim.Failed(err)
		}
	}
	return found, nil
}

// chunkOf reads a chunk that must not be changed. Chunks are made just before a group refers
// to them, so what the cache does not have is asked of the API server.
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

// add looks at further members.
func (f *members) add(ctx context.Context, c *kube.Client, namespace string, list []v1alpha1.ScimMember) error {
	// One object for all: tens of thousands would be for nothing.
	into := map[v1alpha1.ScimMemberType]client.Object{typeUser: &v1alpha1.ScimUser{}, typeGroup: &v1alpha1.ScimGroup{}}
	for i := range list {
		m := memberOf(&list[i])
		if f.seen[m] {
			continue
		}
		f.seen[m] = true
		exists, err := scim.Exists(ctx, c, namespace, m.name, into[m.kind])
		switch {
		case err != nil:
			return err
		case !exists:
			f.miss(m)
			continue
		case m.kind == typeGroup:
			f.groups = append(f.groups, m.name)
		}
		f.count++
	}
	return nil
}

func (f *members) miss(m member) {
	if f.lost++; f.lost <= named {
		f.missing = append(f.missing, fmt.Sprintf("%s %q", strings.ToLower(string(m.kind)), m.name))
	}
}

// report writes what was found into the status.
func (f *members) report(g *v1alpha1.ScimGroup) {
	g.Status.MemberCount = f.count
	condition := metav1.Condition{
		Type: v1alpha1.ConditionMembersFound, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMembersFound,
		Message: "All members exist", ObservedGeneration: g.Generation,
	}
	if f.lost > 0 {
		text := strings.Join(f.missing, ", ")
		if more := f.lost - len(f.missing); more > 0 {
			text = fmt.Sprintf("%s and %d more", text, more)
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMemberNotFound
		condition.Message = reconciler.Clip("Members that do not exist do not count: "+text, 2048)
	}
	meta.SetStatusCondition(&g.Status.Conditions, condition)
}
