package directory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// fixture is a tenant of a Directory on a real API server.
type fixture struct {
	t         testing.TB
	api       client.WithWatch
	namespace string
	account   *v1alpha1.Account
	d         *Directory
	*Tenant
}

const customURN = "urn:acme:params:scim:schemas:custom:2.0:User"

func accountOf(namespace string) *v1alpha1.Account {
	return &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: types.UID(namespace), Generation: 1},
		Spec: v1alpha1.AccountSpec{Namespace: namespace, Scim: &v1alpha1.Scim{Schemas: []v1alpha1.ScimSchema{{
			ID: customURN, ResourceType: membership.TypeUser, Attributes: []v1alpha1.ScimAttribute{
				{Name: "badge", Type: "string"},
				{Name: "level", Type: "integer"},
				{Name: "rate", Type: "decimal"},
				{Name: "remote", Type: "boolean"},
				{Name: "since", Type: "dateTime"},
				{Name: "page", Type: "reference"},
				{Name: "teams", Type: "string", MultiValued: new(true)},
			},
		}}}},
	}
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	r := &fixture{t: t, api: api, namespace: namespace, account: accountOf(namespace)}
	r.d = r.replica(api)
	r.Tenant = r.d.Of(r.account)
	return r
}

// replica returns another Directory of the same objects, like that of another process.
func (r *fixture) replica(c client.WithWatch) *Directory {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	objects, err := cache.New(apitest.Server(r.t), cache.Options{Scheme: apitest.Scheme(r.t), ByObject: CacheOptions()})
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = objects.Start(ctx) }()
	informer := func(of client.Object) toolscache.SharedIndexInformer {
		i, err := objects.GetInformer(ctx, of)
		if err != nil {
			r.t.Fatal(err)
		}
		return i.(toolscache.SharedIndexInformer)
	}
	d, err := New(ctx, Options{
		Users: informer(&v1alpha1.ScimUser{}), Groups: informer(&v1alpha1.ScimGroup{}), Chunks: informer(&v1alpha1.ScimMemberChunk{}),
		Attributes: informer(&v1alpha1.UserAttribute{}),
		Kube:       kube.NewClient(c, c, edit.Manager), Clock: clock.RealClock{},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *fixture) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// user creates a user.
func (r *fixture) user(userName string) *schema.Resource {
	r.t.Helper()
	u, err := r.CreateResource(r.t.Context(), r.Tenant.user, schema.Document{"userName": userName})
	r.must(err)
	return u
}

func (r *fixture) users(prefix string, n int) []string {
	r.t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, r.user(fmt.Sprintf("%s%d", prefix, i)).ID)
	}
	return ids
}

// group creates a group with members.
func (r *fixture) group(displayName string, members ...string) *schema.Resource {
	r.t.Helper()
	g, err := r.CreateResource(r.t.Context(), r.Tenant.group, schema.Document{"displayName": displayName, "members": memberList(members...)})
	r.must(err)
	return g
}

func memberList(ids ...string) []any {
	var list []any
	for _, id := range ids {
		list = append(list, map[string]any{"value": id})
	}
	return list
}

// change changes the members of a group.
func (r *fixture) change(t *Tenant, id string, change func(schema.Set)) error {
	_, err := t.ReplaceResource(r.t.Context(), t.group, id, func(g *schema.Resource) (schema.Document, error) {
		change(g.Document["members"].(schema.Set))
		return g.Document, nil
	})
	return err
}

// storedMembers returns all members of a group, visible or not, with duplicates.
func (r *fixture) storedMembers(t *Tenant, id string) []string {
	r.t.Helper()
	var ids []string
	r.must(r.change(t, id, func(s schema.Set) {
		ids = nil
		for element := range s.All() {
			ids = append(ids, element["value"].(string))
		}
		if s.Len() != len(ids) {
			r.t.Errorf("Len() is %d, All() has %d", s.Len(), len(ids))
		}
	}))
	slices.Sort(ids)
	return ids
}

// visibleMembers returns the visible members of a group.
func (r *fixture) visibleMembers(id string) []string {
	r.t.Helper()
	g, err := r.GetResource(r.t.Context(), r.Tenant.group, id, nil)
	r.must(err)
	var ids []string
	for element := range g.Document["members"].(schema.Set).All() {
		ids = append(ids, element["value"].(string))
	}
	slices.Sort(ids)
	return ids
}

// find returns the ids of the resources that match a filter, in order.
func (r *fixture) find(t *Tenant, rt *schema.ResourceType, text string) []string {
	r.t.Helper()
	page, err := t.ListResources(r.t.Context(), rt, query(r.t, rt, text))
	r.must(err)
	if page.Total != len(page.Resources) {
		r.t.Errorf("%s: total %d, %d resources", text, page.Total, len(page.Resources))
	}
	ids := []string{}
	for _, found := range page.Resources {
		ids = append(ids, found.ID)
	}
	return ids
}

func query(t testing.TB, rt *schema.ResourceType, text string) *scim.Query {
	t.Helper()
	q := &scim.Query{Count: 1000}
	if text == "" {
		return q
	}
	e, err := filter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if q.Filter, err = filter.Compile(e, rt); err != nil {
		t.Fatal(err)
	}
	return q
}

func wantError(t testing.TB, err error, status int, scimType scimerror.Type) {
	t.Helper()
	var e *scimerror.Error
	if !errors.As(err, &e) || e.Status != status || e.Type != scimType {
		t.Errorf("got %v, want %d %s", err, status, scimType)
	}
}

// memory is a Directory without an API server. Its objects are added with put.
type memory struct {
	*Directory
	indexers map[string]toolscache.Indexer
}

func newMemory(t testing.TB) *memory {
	t.Helper()
	informer := func(o client.Object) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, o, 0, toolscache.Indexers{})
	}
	o := Options{
		Users: informer(&v1alpha1.ScimUser{}), Groups: informer(&v1alpha1.ScimGroup{}), Chunks: informer(&v1alpha1.ScimMemberChunk{}),
		Attributes: informer(&v1alpha1.UserAttribute{}),
		Clock:      clock.RealClock{},
	}
	d, err := newDirectory(o)
	if err != nil {
		t.Fatal(err)
	}
	return &memory{d, map[string]toolscache.Indexer{
		"User": o.Users.GetIndexer(), "Group": o.Groups.GetIndexer(), "Chunk": o.Chunks.GetIndexer(),
		"Attribute": o.Attributes.GetIndexer(),
	}}
}

// put adds or changes an object, like an informer.
func (m *memory) put(o client.Object) {
	kind, changed, transform := "Chunk", m.chunks.Changed, slimChunk
	switch o.(type) {
	case *v1alpha1.ScimUser:
		kind, changed, transform = "User", m.users.changed, compactUser
	case *v1alpha1.ScimGroup:
		kind, changed, transform = "Group", m.groups.changed, compactGroup
	}
	before, _, _ := m.indexers[kind].Get(o)
	cached, err := transform(o.DeepCopyObject())
	if err != nil {
		panic(err)
	}
	_ = m.indexers[kind].Update(cached)
	changed(before, cached)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
