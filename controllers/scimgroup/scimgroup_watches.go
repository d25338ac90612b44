package scimgroup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

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
	// indexGroup is the index of groups and chunks by the groups that are their members.
	indexGroup = requests.CacheOnly + "group"
	// indexUser is the index of groups and chunks by the buckets of the users that are their members.
	indexUser = requests.CacheOnly + "user"
	// buckets is the number of buckets of users. An index by user would need several strings and a map
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
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexUser, bucketsOfUsers),
		indexer.IndexField(ctx, &v1alpha1.ScimMemberChunk{}, indexUser, bucketsOfUsers),
		indexer.IndexField(ctx, &v1alpha1.ScimGroup{}, indexGroup, groupsAmong),
		indexer.IndexField(ctx, &v1alpha1.ScimMemberChunk{}, indexGroup, groupsAmong),
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

// bucketOf returns the bucket of a user.
func bucketOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("%x", h.Sum32()%buckets)
}

// bucketsOfUsers returns the buckets of the users in a group or chunk.
func bucketsOfUsers(o client.Object) []string {
	members := membersIn(o)
	all := make([]string, 0, len(members))
	for i := range members {
		if members[i].Type != typeGroup {
			all = append(all, bucketOf(members[i].Value))
		}
	}
	return all
}

// groupsAmong returns the groups in a group or chunk: members that are stored as ids are users.
func groupsAmong(o client.Object) []string {
	switch o := o.(type) {
	case *v1alpha1.ScimGroup:
		return groupNames(o.Spec.ListedMembers())
	case *v1alpha1.ScimMemberChunk:
		return groupNames(o.Spec.Members)
	}
	return nil
}

// membersIn returns the members in a group itself, or in a chunk.
func membersIn(o client.Object) []v1alpha1.ScimMember {
	switch o := o.(type) {
	case *v1alpha1.ScimGroup:
		return o.Spec.EffectiveMembers()
	case *v1alpha1.ScimMemberChunk:
		return o.Spec.AllMembers()
	}
	return nil
}

// ofUser maps a user to the groups that it is a member of.
func ofUser(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		name := user.GetName()
		isUser := func(m *v1alpha1.ScimMember) bool { return m.Type != typeGroup }
		return groupsOf(ctx, c, func(g *v1alpha1.ScimGroup) bool {
			return g.Spec.AnyMember(name, isUser)
		}, func(chunk *v1alpha1.ScimMemberChunk) bool {
			return chunk.Spec.HasUser(name)
		}, user.GetNamespace(), client.MatchingFields{indexUser: bucketOf(name)})
	}
}

// ofGroup maps a group to the groups that contain it, directly or indirectly: the group may have been
// created or deleted, or be part of a cycle.
func ofGroup(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, group client.Object) []reconcile.Request {
		var all []reconcile.Request
		visited := map[string]bool{group.GetName(): true}
		for queue := []string{group.GetName()}; len(queue) > 0 && len(all) < maxNested; queue = queue[1:] {
			for _, request := range groupsOf(ctx, c, requests.All[*v1alpha1.ScimGroup], requests.All[*v1alpha1.ScimMemberChunk],
				group.GetNamespace(), client.MatchingFields{indexGroup: queue[0]}) {
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

// groupsOf returns the groups of an index that match, and those that refer to chunks of the index that match.
func groupsOf(ctx context.Context, c client.Reader, matchGroup func(*v1alpha1.ScimGroup) bool, matchChunk func(*v1alpha1.ScimMemberChunk) bool,
	namespace string, index client.MatchingFields) []reconcile.Request {
	in := client.InNamespace(namespace)
	found := requests.For(ctx, c, &v1alpha1.ScimGroupList{}, matchGroup, in, index)
	for _, chunk := range requests.For(ctx, c, &v1alpha1.ScimMemberChunkList{}, matchChunk, in, index) {
		found = append(found, referrers(ctx, c, namespace, chunk.Name)...)
	}
	return found
}
