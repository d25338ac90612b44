package scimgroup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/claims"
)

const (
	// indexChunk is the field by which the groups that refer to a chunk are found.
	indexChunk = requests.CacheOnly + "chunk"
	// indexMember is the field by which the groups and the chunks are found that may name a
	// member: by its bucket.
	indexMember = requests.CacheOnly + "member"
	// buckets into which members are divided. An index by the members themselves would hold
	// several strings and a map for each of hundreds of thousands of memberships; this one
	// finds a handful of chunks, which are then looked through.
	buckets = 1 << 14
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimgroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimgroups/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimmemberchunks,verbs=delete;get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get;list;watch

// AddIndexes lets the cache find the groups of a member at once.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, scim.IndexWanted, scim.Wanted(claims.GroupName)),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexMember, func(o client.Object) []string {
			if g, ok := o.(*v1alpha1.ScimGroup); ok {
				return bucketsOf(g.Spec.Members)
			}
			return nil
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimMemberChunk{}, indexMember, func(o client.Object) []string {
			if chunk, ok := o.(*v1alpha1.ScimMemberChunk); ok {
				return bucketsOf(chunk.Spec.Members)
			}
			return nil
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexChunk, func(o client.Object) []string {
			var names []string
			if g, ok := o.(*v1alpha1.ScimGroup); ok {
				for _, ref := range g.Spec.MemberChunks {
					names = append(names, ref.Name)
				}
			}
			return names
		}),
	)
}

// SetupWithManager starts the reconciler in a manager. The cache needs AddIndexes.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	b := ctrl.NewControllerManagedBy(mgr).
		Named("scimgroup").
		For(&v1alpha1.ScimGroup{}, predicates.Spec()).
		Watches(&v1alpha1.ScimGroup{}, requests.Later(pause, above(c)), predicates.Spec()).
		Watches(&v1alpha1.ScimUser{}, requests.Later(pause, ofUser(c)), predicates.Existence()).
		Watches(&v1alpha1.ScimMemberChunk{}, requests.Later(pause, ofChunk(c)), predicates.Existence())
	return scim.Watch(b, c, claims.GroupName, &v1alpha1.ScimGroupList{}).WithOptions(opts).Complete(r)
}

func bucketOf(m member) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.kind))
	_, _ = h.Write([]byte(m.name))
	return fmt.Sprintf("%x", h.Sum32()%buckets)
}

func bucketsOf(list []v1alpha1.ScimMember) []string {
	all := make([]string, 0, len(list))
	for i := range list {
		all = append(all, bucketOf(memberOf(&list[i])))
	}
	return all
}

// ofUser maps a user that came or went to the groups that name it.
func ofUser(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		return naming(ctx, c, user.GetNamespace(), member{typeUser, user.GetName()})
	}
}

// above maps a group to those that contain it, directly or through others: it may exist now
// or be gone, and the way in which they contain themselves may lead through it.
func above(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, group client.Object) []reconcile.Request {
		var all []reconcile.Request
		seen := map[string]bool{group.GetName(): true}
		for queue := []string{group.GetName()}; len(queue) > 0 && len(all) < maxNested; queue = queue[1:] {
			for _, request := range naming(ctx, c, group.GetNamespace(), member{typeGroup, queue[0]}) {
				if !seen[request.Name] {
					seen[request.Name] = true
					all, queue = append(all, request), append(queue, request.Name)
				}
			}
		}
		return all
	}
}

// ofChunk maps a chunk that came or went to the groups that refer to it.
func ofChunk(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, chunk client.Object) []reconcile.Request {
		return referring(ctx, c, chunk.GetNamespace(), chunk.GetName())
	}
}

func referring(ctx context.Context, c client.Reader, namespace, chunk string) []reconcile.Request {
	return requests.For(ctx, c, &v1alpha1.ScimGroupList{}, requests.All[*v1alpha1.ScimGroup],
		client.InNamespace(namespace), client.MatchingFields{indexChunk: chunk})
}

// naming are the groups that name a member, in place or in a chunk.
func naming(ctx context.Context, c client.Reader, namespace string, m member) []reconcile.Request {
	isMember := func(other v1alpha1.ScimMember) bool { return memberOf(&other) == m }
	in, bucket := client.InNamespace(namespace), client.MatchingFields{indexMember: bucketOf(m)}
	found := requests.For(ctx, c, &v1alpha1.ScimGroupList{}, func(g *v1alpha1.ScimGroup) bool {
		return slices.ContainsFunc(g.Spec.Members, isMember)
	}, in, bucket)
	for _, chunk := range requests.For(ctx, c, &v1alpha1.ScimMemberChunkList{}, func(chunk *v1alpha1.ScimMemberChunk) bool {
		return slices.ContainsFunc(chunk.Spec.Members, isMember)
	}, in, bucket) {
		found = append(found, referring(ctx, c, namespace, chunk.Name)...)
	}
	return found
}
