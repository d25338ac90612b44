package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// TestConcurrentCreates checks that of 64 concurrent creates of one name on two replicas exactly one
// succeeds and the others fail with 409.
func TestConcurrentCreates(t *testing.T) {
	r := newFixture(t)
	tenants := []*Tenant{r.Tenant, r.replica(r.api).Of(r.account)}
	var mu sync.Mutex
	var made []string
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		group.Go(func() {
			<-start
			on := tenants[i%2]
			u, err := on.CreateResource(t.Context(), on.user, schema.Document{"userName": []string{"Bjensen", "bjensen"}[i/2%2]})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, u.ID)
				return
			}
			wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
		})
	}
	close(start)
	group.Wait()
	if len(made) != 1 {
		t.Fatalf("%d creates succeeded", len(made))
	}
	for _, on := range tenants {
		r.eventually(func() bool { return slices.Equal(r.find(on, on.user, ""), made) })
		if got := r.find(on, on.user, `userName eq "BJENSEN"`); !slices.Equal(got, made) {
			t.Errorf("found %v, want %v", got, made)
		}
	}
	r.wantClaims(map[string]string{"bjensen": made[0]})
}

// TestStatusWritesRejectNoRequest checks that writes of the status of a group between the read and the write of a request do not
// reject it.
func TestStatusWritesRejectNoRequest(t *testing.T) {
	r := newFixture(t)
	g := r.group("g", "first")
	left := 0
	interfere := func(ctx context.Context, o client.Object) {
		if _, is := o.(*v1alpha1.ScimGroup); !is || left == 0 {
			return
		}
		left--
		status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"memberCount":%d}}`, 100+left))
		r.must(r.api.Status().Patch(ctx, &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: g.ID}}, status))
	}
	replica := r.replica(interceptor.NewClient(r.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			interfere(ctx, o)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			interfere(ctx, o)
			return c.Delete(ctx, o, opts...)
		},
	})).Of(r.account)
	for _, request := range []struct {
		method string
		send   func() error
	}{
		{"PATCH", func() error { return r.change(replica, g.ID, func(s schema.Set) { scimtest.AddMembers(s, "second") }) }},
		{"PUT", func() error {
			_, err := replica.ReplaceResource(t.Context(), replica.group, g.ID, func(current *schema.Resource) (schema.Document, error) {
				current.Document["displayName"] = "renamed"
				return current.Document, nil
			})
			return err
		}},
		{"DELETE", func() error {
			return replica.DeleteResource(t.Context(), replica.group, g.ID, func(*schema.Resource) error { return nil })
		}},
	} {
		const conflicts = 8
		left = conflicts
		if err := request.send(); err != nil || left != 0 {
			t.Errorf("%s: %v after %d of %d conflicts", request.method, err, conflicts-left, conflicts)
		}
	}
	_, err := r.GetResource(t.Context(), r.Tenant.group, g.ID, nil)
	wantError(t, err, http.StatusNotFound, "")
}

// TestLongChangesTakeTurns checks that a request that adds many members computes in turns with the work of other accounts, and
// holds no place while it writes.
func TestLongChangesTakeTurns(t *testing.T) {
	r := newFixture(t)
	members := scimtest.Sequence("m", 0, 1500)
	g := r.group("few", "m")
	for name, send := range map[string]func() error{
		"creation": func() error {
			_, err := r.CreateResource(t.Context(), r.Tenant.group, schema.Document{"displayName": "many", "members": memberList(members...)})
			return err
		},
		"change": func() error {
			return r.change(r.Tenant, g.ID, func(s schema.Set) { scimtest.AddMembers(s, members...) })
		},
	} {
		var held []*fairsemaphore.Turn
		for range max(1, runtime.GOMAXPROCS(0)-1) {
			turn, err := fairsemaphore.Processors.Begin(t.Context(), "another account")
			r.must(err)
			held = append(held, turn)
		}
		done := make(chan error, 1)
		go func() { done <- send() }()
		r.eventually(func() bool { return len(done) > 0 || fairsemaphore.Processors.Waiting(r.account.Name) > 0 })
		if len(done) > 0 {
			t.Errorf("%s: it has not waited for a place", name)
		}
		for _, turn := range held {
			turn.End()
		}
		r.must(<-done)
	}
	if got := r.storedMembers(r.Tenant, g.ID); len(got) != len(members)+1 {
		t.Errorf("%d members", len(got))
	}
}

// TestConcurrentMemberChanges checks that no concurrent change of one group on two replicas is lost.
// Conflicts are retried, as clients do.
func TestConcurrentMemberChanges(t *testing.T) {
	r := newFixture(t)
	tenants := []*Tenant{r.Tenant, r.replica(r.api).Of(r.account)}
	var leaving []string
	for i := range 32 {
		leaving = append(leaving, fmt.Sprintf("leaving-%d", i))
	}
	g := r.group("g", leaving...)
	var group sync.WaitGroup
	var want []string
	for i := range 16 {
		id := fmt.Sprintf("coming-%d", i)
		want = append(want, id)
		group.Go(func() {
			for {
				err := r.change(tenants[i%2], g.ID, func(s schema.Set) {
					scimtest.AddMembers(s, id)
					s.Delete(leaving[2*i])
					s.Delete(leaving[2*i+1])
				})
				var e *scimerror.Error
				if errors.As(err, &e) && e.Status == http.StatusConflict {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	group.Wait()
	for _, on := range tenants {
		if got := r.storedMembers(on, g.ID); !slices.Equal(got, sorted(want)) {
			t.Errorf("members %v", got)
		}
	}
}

// TestLargeGroupMatchesModel changes a group of 3,000 members at random on two replicas.
func TestLargeGroupMatchesModel(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	r := newFixture(t)
	tenants := []*Tenant{r.Tenant, r.replica(r.api).Of(r.account)}
	model := map[string]bool{}
	for _, id := range scimtest.Sequence("m", 0, 3000) {
		model[id] = true
	}
	g := r.group("large", sortedKeys(model)...)
	for step := range 25 {
		on := tenants[step%2]
		r.must(r.change(on, g.ID, randomMembers(random, model)))
		if got := r.storedMembers(on, g.ID); !slices.Equal(got, sortedKeys(model)) {
			t.Fatalf("seed %d, step %d: %d members, want %d", seed, step, len(got), len(model))
		}
	}
	object := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: g.ID}}
	r.must(r.api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	if len(object.Spec.Members) > 0 || len(object.Spec.Chunks()) < len(model)/1000 {
		t.Errorf("%d members in place, %d chunks", len(object.Spec.Members), len(object.Spec.Chunks()))
	}
}

// randomMembers changes the model at random, and returns the same change of a group. It is made again if the replica did not know the
// last change of the other one.
func randomMembers(random *rand.Rand, model map[string]bool) func(schema.Set) {
	adding := random.IntN(2) == 0
	var ids []string
	for range 1 + random.IntN([]int{1, 4, 600}[random.IntN(3)]) {
		id := fmt.Sprintf("m%07d", random.IntN(5000))
		ids = append(ids, id)
		if adding {
			model[id] = true
		} else {
			delete(model, id)
		}
	}
	return func(s schema.Set) {
		if adding {
			scimtest.AddMembers(s, ids...)
			return
		}
		for _, id := range ids {
			s.Delete(id)
		}
	}
}

// TestGroupsOfUsers checks direct and indirect groups of users, with a cycle of groups.
func TestGroupsOfUsers(t *testing.T) {
	r := newFixture(t)
	u, v := r.user("u"), r.user("v")
	team := r.group("Team", u.ID)
	department := r.group("Department", team.ID, v.ID)
	company := r.group("Company", department.ID)
	r.must(r.change(r.Tenant, team.ID, func(s schema.Set) { scimtest.AddMembers(s, company.ID) })) // a cycle
	want := map[string]string{
		u.ID: "Team direct, Department indirect, Company indirect",
		v.ID: "Department direct, Company indirect, Team indirect",
	}
	for id, want := range want {
		got, err := r.GetResource(t.Context(), r.Tenant.user, id, nil)
		r.must(err)
		if s := groupNames(got.Document["groups"]); s != want {
			t.Errorf("groups: %s, want %s", s, want)
		}
	}
	for filter, want := range map[string][]string{
		`groups.value eq "` + team.ID + `"`:                       {u.ID, v.ID},
		`groups eq "` + department.ID + `" and userName eq "v"`:   {v.ID},
		`groups[value eq "` + team.ID + `" and type eq "direct"]`: {u.ID},
		`groups.display eq "company"`:                             {u.ID, v.ID},
		`groups.value eq "nothing"`:                               {},
	} {
		if got := r.find(r.Tenant, r.Tenant.user, filter); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", filter, got, want)
		}
	}
	without := &schema.Projection{Include: []schema.Ref{{Attribute: r.Tenant.user.Core.Attribute("userName")}}}
	got, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, without)
	r.must(err)
	if got.Document["groups"] != nil {
		t.Error("groups are read although they are not selected")
	}
	r.must(r.DeleteResource(t.Context(), r.Tenant.group, department.ID, pass))
	got, err = r.GetResource(t.Context(), r.Tenant.user, u.ID, nil)
	r.must(err)
	if s := groupNames(got.Document["groups"]); s != "Team direct" {
		t.Errorf("groups: %s", s)
	}
}

func groupNames(value any) string {
	var names []string
	list, _ := value.([]any)
	for _, item := range list {
		element := item.(map[string]any)
		names = append(names, fmt.Sprint(element["display"], " ", element["type"]))
	}
	return strings.Join(names, ", ")
}

// TestNestingIsBounded checks that nested groups are followed up to a maximum depth.
func TestNestingIsBounded(t *testing.T) {
	m, _, v := inMemory(t)
	m.put(&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "u"}, Spec: v1alpha1.ScimUserSpec{UserName: "u"}})
	member := v1alpha1.ScimMember{Value: "u"}
	for i := range 40 {
		name := fmt.Sprintf("g%02d", i)
		m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ScimGroupSpec{
			DisplayName: name, Members: []v1alpha1.ScimMember{member},
		}})
		member = v1alpha1.ScimMember{Value: name, Type: membership.TypeGroup}
	}
	if got := groupsOfUser(v, "u", nil).([]any); len(got) != maxNesting {
		t.Errorf("%d groups", len(got))
	}
	users, err := usersInGroup(nil, v, "g39")
	if err != nil || len(users) != 0 {
		t.Errorf("%v, %v", users, err)
	}
}

// TestUserAndGroupOfTheSameID checks that the declared type of a member decides between a user and a
// group with the same id.
func TestUserAndGroupOfTheSameID(t *testing.T) {
	m, _, v := inMemory(t)
	m.put(&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "both"}, Spec: v1alpha1.ScimUserSpec{UserName: "both"}})
	for name, members := range map[string][]v1alpha1.ScimMember{
		"both": {}, "of-user": {{Value: "both"}}, "of-group": {{Value: "both", Type: membership.TypeGroup}},
	} {
		m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ScimGroupSpec{DisplayName: name, Members: members}})
	}
	if got := groupNames(groupsOfUser(v, "both", nil)); got != "of-user direct" {
		t.Errorf("groups %s", got)
	}
	for name, want := range map[string]string{"of-user": "User", "of-group": "Group"} {
		g := m.groups.visible("acme", name)
		if element, _ := v.members.Members(&g.Spec).Get("both"); element["type"] != want {
			t.Errorf("%s: %v", name, element)
		}
	}
}

// TestReferencesToADeletedNamesake: of a user and a group with the same chosen name one is deleted. The members that refer to it do
// not refer to the other one.
func TestReferencesToADeletedNamesake(t *testing.T) {
	for deleted, want := range map[string]struct{ groups, above, left string }{
		"Group": {"of-user direct", "of-group", "of-user"},
		"User":  {"", "of-group", "of-group"},
	} {
		m, _, _ := inMemory(t)
		m.put(&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "both"}, Spec: v1alpha1.ScimUserSpec{UserName: "both"}})
		m.put(&v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "chunk"}, Spec: v1alpha1.ScimMemberChunkSpec{
			Members: []v1alpha1.ScimMember{{Value: "both", Type: membership.TypeGroup}},
		}})
		for name, spec := range map[string]v1alpha1.ScimGroupSpec{
			"both": {}, "of-user": {Members: []v1alpha1.ScimMember{{Value: "both"}}}, "of-group": {MemberChunkList: "chunk 1\n"},
		} {
			spec.DisplayName = name
			m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: spec})
		}
		o, _, _ := m.indexers[deleted].GetByKey("acme/both")
		if err := m.indexers[deleted].Delete(o); err != nil {
			t.Fatal(err)
		}
		map[string]func(before, after any){"User": m.users.changed, "Group": m.groups.changed}[deleted](o, nil)
		v := m.view(t.Context(), "acme", schema.User, nil)
		if got := groupNames(groupsOfUser(v, "both", nil)); deleted == "Group" && got != want.groups {
			t.Errorf("without the group: the user is in %q, want %q", got, want.groups)
		}
		for _, g := range v.groupsAbove("both") {
			if g.Name != want.above {
				t.Errorf("without the %s: the group is in %q", deleted, g.Name)
			}
		}
		var left []string
		for _, name := range []string{"of-user", "of-group"} {
			if _, found := v.members.Members(&m.groups.visible("acme", name).Spec).Get("both"); found {
				left = append(left, name)
			}
		}
		if got := strings.Join(left, " "); got != want.left {
			t.Errorf("without the %s: a visible member of %q, want %q", deleted, got, want.left)
		}
	}
}

// TestDeletionRemovesReferencesOfItsKind: the deletion of a group removes it from its groups also if a user has the same name, who stays a
// member.
func TestDeletionRemovesReferencesOfItsKind(t *testing.T) {
	r := newFixture(t)
	for kind, names := range map[string][]string{"ScimUser": {"both"}, "ScimGroup": {"both", "of-user", "of-group"}} {
		for _, name := range names {
			spec := map[string]any{"userName": name}
			if kind == "ScimGroup" {
				spec = map[string]any{"displayName": name}
			}
			switch name {
			case "of-user":
				spec["members"] = []any{map[string]any{"value": "both"}}
			case "of-group":
				spec["members"] = []any{map[string]any{"value": "both", "type": "Group"}}
			}
			o := &unstructured.Unstructured{Object: manifest(kind, name, spec)}
			o.SetNamespace(r.namespace)
			r.must(r.api.Create(t.Context(), o, client.FieldOwner("kubectl-create")))
		}
	}
	for _, name := range []string{"both", "of-user", "of-group"} {
		r.eventually(func() bool { return r.d.groups.cached(r.namespace, name) != nil })
	}
	r.eventually(func() bool { return r.d.users.cached(r.namespace, "both") != nil })
	r.must(r.DeleteResource(t.Context(), r.Tenant.group, "both", pass))
	if got := r.storedMembers(r.Tenant, "of-group"); len(got) != 0 {
		t.Errorf("the deleted group is still a member: %v", got)
	}
	if got := r.storedMembers(r.Tenant, "of-user"); !slices.Equal(got, []string{"both"}) {
		t.Errorf("members of the user's group: %v", got)
	}
}

// TestLookupsByName checks the reads of a lookup of a user by name: of the API server's cache, at the version of the cached object
// or later; of etcd if that cache is behind; and of the claim if the name is that of another user now, or of none.
func TestLookupsByName(t *testing.T) {
	r := newFixture(t)
	ann := r.user("ann").ID
	var reads []string
	behind := false
	replica := r.replica(interceptor.NewClient(r.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			options := (&client.GetOptions{}).ApplyOptions(opts)
			read := fmt.Sprintf("%T", o)[len("*v1alpha1."):]
			if options.Raw != nil && options.Raw.ResourceVersion == r.d.users.visible(r.namespace, key.Name).GetResourceVersion() {
				read += " at its version"
				if behind {
					reads = append(reads, read)
					return apierrors.NewTimeoutError("Too large resource version", 1)
				}
			}
			reads = append(reads, read)
			return c.Get(ctx, key, o, opts...)
		},
	})).Of(r.account)
	lookUp := func(name string, want []string, wantReads ...string) {
		t.Helper()
		reads = nil
		if got := r.find(replica, replica.user, `userName eq "`+name+`"`); !slices.Equal(got, want) || !slices.Equal(reads, wantReads) {
			t.Errorf("%s: found %v with reads of %q; want %v, %q", name, got, reads, want, wantReads)
		}
	}
	lookUp("ANN", []string{ann}, "ScimUser at its version")
	behind = true
	lookUp("ann", []string{ann}, "ScimUser at its version", "ScimUser")
	behind = false
	lookUp("bob", []string{}, "Claim")
	_, err := r.ReplaceResource(t.Context(), r.Tenant.user, ann, func(*schema.Resource) (schema.Document, error) {
		return schema.Document{"userName": "bob"}, nil
	})
	r.must(err)
	lookUp("bob", []string{ann}, "ScimUser at its version")
	lookUp("ann", []string{}, "Claim")
}
