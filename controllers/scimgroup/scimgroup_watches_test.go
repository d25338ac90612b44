package scimgroup

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// start runs the controller in a manager.
func (f *fixture) start() {
	f.Helper()
	mgr, err := ctrl.NewManager(apitest.Server(f), ctrl.Options{
		Scheme:  apitest.Scheme(f),
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{f.namespace: {}}},
	})
	f.must(err)
	index := func(obj client.Object, field string, value func(client.Object) string) {
		f.must(mgr.GetFieldIndexer().IndexField(f.Context(), obj, field, func(o client.Object) []string { return []string{value(o)} }))
	}
	index(&v1alpha1.Account{}, tenant.IndexNamespace, func(o client.Object) string { return o.(*v1alpha1.Account).Spec.Namespace })
	index(&v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) string { return o.(*v1alpha1.Claim).Spec.Holder.Name })
	f.must(AddIndexes(f.Context(), mgr.GetFieldIndexer()))
	r := New(kube.NewClient(mgr.GetClient(), mgr.GetAPIReader(), "quoin-test"), f.recorder, clock.RealClock{})
	skip := true
	f.must(SetupWithManager(mgr, r, controller.Options{SkipNameValidation: &skip, MaxConcurrentReconciles: 4}))
	go func() { _ = mgr.Start(f.Context()) }()
}

// waitFor waits until a condition of a group has a reason and the group has a number of members.
func (f *fixture) waitFor(name, kind, reason string, members int32) {
	f.Helper()
	g := &v1alpha1.ScimGroup{}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		f.must(f.api.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, g))
		c := meta.FindStatusCondition(g.Status.Conditions, kind)
		if c != nil && c.Reason == reason && g.Status.ObservedGeneration == g.Generation && g.Status.MemberCount == members {
			return
		}
	}
	f.Fatalf("%s: no reason %s with %d members: %+v", name, reason, members, g.Status)
}

// TestWatches checks that changes of its members, chunks and claim reconcile a group.
func TestWatches(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.chunk("c1", "bob", "Sub")
	f.setChunks(f.group("staff", "ann"), 2, "c1")
	f.waitFor("staff", "MembersFound", "MemberNotFound", 0)
	ann := f.user("ann")
	f.user("bob")
	f.group("sub", "Staff")
	f.waitFor("staff", "MembersFound", "MembersFound", 3)
	f.must(f.api.Delete(t.Context(), ann))
	f.waitFor("staff", "MembersFound", "MemberNotFound", 2)
	f.must(f.api.Delete(t.Context(), &v1alpha1.ScimMemberChunk{ObjectMeta: f.named("c1")}))
	f.waitFor("staff", "Ready", "ChunkMissing", 2)

	other := &v1alpha1.ScimGroup{ObjectMeta: f.named("other"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "Staff"}}
	f.must(f.api.Create(t.Context(), other))
	f.waitFor("other", "Ready", "NameTaken", 0)
	f.must(f.api.Patch(t.Context(), &v1alpha1.ScimGroup{ObjectMeta: f.named("staff")},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"displayName":"people","memberChunkList":null}}`))))
	f.waitFor("other", "Ready", "Succeeded", 0)
	f.waitFor("staff", "MembersFound", "MemberNotFound", 0)
}

// inMemory returns a fake client with the indexes of the cache.
func inMemory(t testing.TB, objs ...client.Object) client.WithWatch {
	builder := fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(objs...).WithStatusSubresource(&v1alpha1.ScimGroup{})
	builder = builder.WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf)
	builder = builder.WithIndex(&v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) []string { return []string{o.(*v1alpha1.Claim).Spec.Holder.Name} })
	for _, obj := range []client.Object{&v1alpha1.ScimGroup{}, &v1alpha1.ScimMemberChunk{}} {
		builder = builder.WithIndex(obj, indexUser, bucketsOfUsers).WithIndex(obj, indexGroup, groupsAmong)
	}
	return builder.WithIndex(&v1alpha1.ScimGroup{}, indexChunk, func(o client.Object) []string {
		var names []string
		for _, ref := range o.(*v1alpha1.ScimGroup).Spec.Chunks() {
			names = append(names, ref.Name)
		}
		return names
	}).Build()
}

func inMemoryGroup(namespace, name, chunk string, members ...string) *v1alpha1.ScimGroup {
	g := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.ScimGroupSpec{DisplayName: name, Members: list(members...)}}
	if chunk != "" {
		g.Spec.SetChunks([]v1alpha1.ScimMemberChunkReference{{Name: chunk, Count: 1}})
	}
	return g
}

// TestMapFunctions checks which groups the change of an object reconciles.
func TestMapFunctions(t *testing.T) {
	stored := &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "c2"}}
	stored.Spec.SetMembers(list("ida", "joanne", "Deep"))
	c := inMemory(t, stored, inMemoryGroup("acme", "team", "c2"),
		inMemoryGroup("acme", "staff", "", "ann", "Sub"), inMemoryGroup("acme", "sub", "c1"), inMemoryGroup("acme", "all", "", "Staff", "All"),
		inMemoryGroup("acme", "other", "", "eve"), inMemoryGroup("other", "staff", "c1", "ann"),
		&v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "c1"}, Spec: v1alpha1.ScimMemberChunkSpec{Members: list("bob", "ann")}},
	)
	at := func(name string) client.Object {
		return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
	}
	cases := map[string]struct {
		got  []ctrl.Request
		want []string
	}{
		"a user":                          {ofUser(c)(t.Context(), at("ann")), []string{"staff", "sub"}},
		"a user of a chunk":               {ofUser(c)(t.Context(), at("bob")), []string{"sub"}},
		"a user of a stored chunk":        {ofUser(c)(t.Context(), at("ida")), []string{"team"}},
		"its last user":                   {ofUser(c)(t.Context(), at("joanne")), []string{"team"}},
		"a user with part of a name":      {ofUser(c)(t.Context(), at("anne")), nil},
		"a user of no group":              {ofUser(c)(t.Context(), at("joe")), nil},
		"a user with the name of a group": {ofUser(c)(t.Context(), at("sub")), nil},
		"a chunk":                         {ofChunk(c)(t.Context(), at("c1")), []string{"sub"}},
		"a nested group":                  {ofGroup(c)(t.Context(), at("sub")), []string{"all", "staff"}},
		"a group nested in a chunk":       {ofGroup(c)(t.Context(), at("deep")), []string{"team"}},
		"a group in itself":               {ofGroup(c)(t.Context(), at("all")), nil},
	}
	for name, tc := range cases {
		var got []string
		for _, request := range tc.got {
			if request.Namespace != "acme" {
				t.Errorf("%s: %v", name, request)
			}
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// BenchmarkLargeGroup measures the reconciliation of a group of 50,000 members with a real cache, and the
// lookup of the groups of one member.
func BenchmarkLargeGroup(b *testing.B) {
	api, namespace := apitest.Direct(b)
	group := createLargeGroup(b, api, namespace)
	before := heap()
	c := cachedClient(b)
	r := New(kube.NewClient(c, api, "quoin-test"), events.NewFakeRecorder(1), clock.RealClock{})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(group)}
	reconcile := func() {
		_, err := r.Reconcile(b.Context(), request)
		must(b, err)
	}
	reconcile()
	time.Sleep(time.Second)
	b.Run("reconcile", func(b *testing.B) {
		for b.Loop() {
			reconcile()
		}
	})
	user := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "2819c223-7f76-453a-919d-000000012345"}}
	b.Run("groups of a member", func(b *testing.B) {
		for b.Loop() {
			if got := ofUser(c)(b.Context(), user); len(got) != 1 {
				b.Fatal(got)
			}
		}
	})
	b.Logf("cache of chunks, users and indexes: %d KiB", (heap()-before)/1024)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// createLargeGroup creates an account and a group of 50,000 members.
func createLargeGroup(b *testing.B, api client.Client, namespace string) *v1alpha1.ScimGroup {
	b.Helper()
	const members, perChunk = 50_000, 1000
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.AccountSpec{Namespace: namespace, Host: v1alpha1.Host(namespace + ".example.com")}}
	must(b, api.Create(b.Context(), account))
	group := inMemoryGroup(namespace, "all", "")
	for i := 0; i < members; i += perChunk {
		chunk := &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("c", i)}}
		for j := range perChunk {
			// One user in a hundred exists: 500 writes are enough, and a missing user is the slower case.
			chunk.Spec.Members = append(chunk.Spec.Members, v1alpha1.ScimMember{Value: fmt.Sprintf("2819c223-7f76-453a-919d-%012d", i+j)})
		}
		must(b, api.Create(b.Context(), chunk))
		group.Spec.MemberChunks = append(group.Spec.MemberChunks, v1alpha1.ScimMemberChunkReference{Name: chunk.Name, Count: perChunk})
		for j := 0; j < perChunk; j += 100 {
			name := chunk.Spec.Members[j].Value
			must(b, api.Create(b.Context(), &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: name}}))
		}
	}
	must(b, api.Create(b.Context(), group))
	return group
}

// cachedClient returns a client that reads from a synced cache with the indexes of the controller.
func cachedClient(b *testing.B) client.Client {
	b.Helper()
	store, err := cache.New(apitest.Server(b), cache.Options{Scheme: apitest.Scheme(b)})
	must(b, err)
	must(b, store.IndexField(b.Context(), &v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf))
	must(b, store.IndexField(b.Context(), &v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) []string { return []string{o.(*v1alpha1.Claim).Spec.Holder.Name} }))
	must(b, AddIndexes(b.Context(), store))
	go func() { _ = store.Start(b.Context()) }()
	for !store.WaitForCacheSync(b.Context()) {
		time.Sleep(time.Millisecond)
	}
	c, err := client.New(apitest.Server(b), client.Options{Scheme: apitest.Scheme(b), Cache: &client.CacheOptions{Reader: store}})
	must(b, err)
	for _, list := range []client.ObjectList{&v1alpha1.ScimGroupList{}, &v1alpha1.ScimUserList{}, &v1alpha1.ScimMemberChunkList{}, &v1alpha1.ClaimList{}, &v1alpha1.AccountList{}} {
		must(b, c.List(b.Context(), list))
	}
	return c
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
