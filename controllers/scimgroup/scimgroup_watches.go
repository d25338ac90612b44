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
	// indexChunk is the index of groups by chunk.
	indexChunk = requests.CacheOnly + "chunk"
	// indexMember is the index of groups and chunks by the buckets of their members.
	indexMember = requests.CacheOnly + "member"
	// buckets is the number of buckets of members. An index by member would need several strings and a map
	// for each of hundreds of thousands of memberships; this index returns a few chunks to search.
	buckets = 1 << 14
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimgroups,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimgroups/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimmemberchunks,verbs=delete;get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get;list;watch

// AddIndexes adds the indexes of the controller to the cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, scim.IndexWanted, scim.Wanted(claims.GroupName)),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexMember, func(o client.Object) []string {
			if g, ok := o.(*v1alpha1.ScimGroup); ok {
				return bucketsOf(g.Spec.EffectiveMembers())
			}
			return nil
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimMemberChunk{}, indexMember, func(o client.Object) []string {
			if chunk, ok := o.(*v1alpha1.ScimMemberChunk); ok {
				return bucketsOf(chunk.Spec.AllMembers())
			}
			return nil
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexChunk, func(o client.Object) []string {
			var names []string
			if g, ok := o.(*v1alpha1.ScimGroup); ok {
				for _, ref := range g.Spec.Chunks() {
					names = append(names, ref.Name)
				}
			}
			return names
		}),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, scim.IndexAccountRole, scim.RolesOf),
	)
}

// SetupWithManager adds the controller to a manager. The cache must have the indexes of AddIndexes.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	b := ctrl.NewControllerManagedBy(mgr).
		Named("scimgroup").
		For(&v1alpha1.ScimGroup{}, predicates.Spec()).
		Watches(&v1alpha1.ScimGroup{}, requests.Later(batchInterval, ofGroup(c)), predicates.Spec()).
		Watches(&v1alpha1.ScimUser{}, requests.Later(batchInterval, ofUser(c)), predicates.Existence()).
		Watches(&v1alpha1.ScimMemberChunk{}, requests.Later(batchInterval, ofChunk(c)), predicates.Existence()).
		Watches(&v1alpha1.AccountRole{}, requests.Later(scim.RolesDelay, ofRole(c)), predicates.Existence())
	return scim.Watch(b, c, claims.GroupName, &v1alpha1.ScimGroupList{}).WithOptions(opts).Complete(r)
}

// ofRole maps a role to the groups with it.
func ofRole(c client.Reader) handler.MapFunc {
	return scim.OfRole[*v1alpha1.ScimGroup](c, func() client.ObjectList { return &v1alpha1.ScimGroupList{} })
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

// ofUser maps a user to the groups that it is a member of.
func ofUser(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		return groupsOf(ctx, c, user.GetNamespace(), member{typeUser, user.GetName()})
	}
}

// ofGroup maps a group to the groups that contain it, directly or indirectly: the group may have been
// created or deleted, or be part of a cycle.
func ofGroup(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, group client.Object) []reconcile.Request {
		var all []reconcile.Request
		visited := map[string]bool{group.GetName(): true}
		for queue := []string{group.GetName()}; len(queue) > 0 && len(all) < maxNested; queue = queue[1:] {
			for _, request := range groupsOf(ctx, c, group.GetNamespace(), member{typeGroup, queue[0]}) {
				if !visited[request.Name] {
					visited[request.Name] = true
					all, queue = append(all, request), append(queue, request.Name)
				}
			}
		}
		return all
	}
}

// ofChunk maps a chunk to the groups that refer to it.
func ofChunk(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, chunk client.Object) []reconcile.Request {
		return referrers(ctx, c, chunk.GetNamespace(), chunk.GetName())
	}
}

func referrers(ctx context.Context, c client.Reader, namespace, chunk string) []reconcile.Request {
	return requests.For(ctx, c, &v1alpha1.ScimGroupList{}, requests.All[*v1alpha1.ScimGroup],
		client.InNamespace(namespace), client.MatchingFields{indexChunk: chunk})
}

// groupsOf returns the groups that have a member, in the group itself or in a chunk.
func groupsOf(ctx context.Context, c client.Reader, namespace string, m member) []reconcile.Request {
	isMember := func(other v1alpha1.ScimMember) bool { return memberOf(&other) == m }
	in, bucket := client.InNamespace(namespace), client.MatchingFields{indexMember: bucketOf(m)}
	found := requests.For(ctx, c, &v1alpha1.ScimGroupList{}, func(g *v1alpha1.ScimGroup) bool {
		return slices.ContainsFunc(g.Spec.EffectiveMembers(), isMember)
	}, in, bucket)
	for _, chunk := range requests.For(ctx, c, &v1alpha1.ScimMemberChunkList{}, func(chunk *v1alpha1.ScimMemberChunk) bool {
		return slices.ContainsFunc(chunk.Spec.AllMembers(), isMember)
	}, in, bucket) {
		found = append(found, referrers(ctx, c, namespace, chunk.Name)...)
	}
	return found
}
