package directory

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
)

const many = 100_000

// populated returns a Directory with 100,000 users and 1,000 groups of 50 members.
func populated(b *testing.B) (*memory, *Tenant) {
	b.Helper()
	m := newMemory(b)
	tenant := m.Of(accountOf("acme"))
	began := time.Unix(1_700_000_000, 0)
	for i := range many {
		m.put(&v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "acme", Name: fmt.Sprintf("u%06d", i), UID: types.UID(fmt.Sprintf("%08d-uid", i)), Generation: 1,
				CreationTimestamp: metav1.NewTime(began.Add(time.Duration(i/100) * time.Second)),
			},
			Spec: v1alpha1.ScimUserSpec{
				UserName: fmt.Sprintf("user%d@example.com", i), ExternalID: fmt.Sprintf("ext-%d", i), DisplayName: fmt.Sprintf("User %d", i),
				Name:   &v1alpha1.ScimName{GivenName: "User", FamilyName: fmt.Sprint(i)},
				Emails: []v1alpha1.ScimMultiValue{{Value: fmt.Sprintf("user%d@example.com", i), Type: "work", Primary: new(true)}},
				Title:  "Engineer",
			},
		})
	}
	for i := range 1000 {
		var members []v1alpha1.ScimMember
		for j := range 50 {
			members = append(members, v1alpha1.ScimMember{Value: fmt.Sprintf("u%06d", i*50+j)})
		}
		name := fmt.Sprintf("m-%d", i)
		m.put(&v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ScimMemberChunkSpec{Members: members}})
		m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: fmt.Sprintf("g%d", i)}, Spec: v1alpha1.ScimGroupSpec{
			DisplayName: fmt.Sprintf("Group %d", i), MemberChunks: []v1alpha1.ScimMemberChunkReference{{Name: name, Count: 50}},
		}})
	}
	return m, tenant
}

// TestMemoryOfUsers checks that the cache, the indexes and the order of lists need less than a KiB of live memory for a user
// like those of identity providers. A process needs about twice as much, because of the garbage collector.
func TestMemoryOfUsers(t *testing.T) {
	const n, most = 50_000, 700 // bytes
	m := newMemory(t)
	before := live()
	for i := range n {
		id, name, address := fmt.Sprintf("01a203d5-b0a3-74f1-97bb-%012d", i), fmt.Sprintf("Given%07d Family%07d", i, i), fmt.Sprintf("user.%07d@bench.example.com", i)
		m.put(&v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: id, UID: types.UID(id), ResourceVersion: fmt.Sprint(100_000 + i), Generation: 1, CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
			Spec: v1alpha1.ScimUserSpec{
				UserName: address, ExternalID: fmt.Sprintf("00u%07d", i), DisplayName: name, Title: "Analyst", Locale: "en-GB", Timezone: "Europe/London",
				Active: new(true), Name: &v1alpha1.ScimName{Formatted: name, GivenName: name[:12], FamilyName: name[13:]},
				Emails:       []v1alpha1.ScimMultiValue{{Value: address, Type: "work", Primary: new(true)}},
				PhoneNumbers: []v1alpha1.ScimMultiValue{{Value: fmt.Sprintf("+44 20 %07d", i), Type: "work"}},
				Enterprise:   &v1alpha1.ScimEnterprise{EmployeeNumber: fmt.Sprintf("%07d", i), CostCenter: "4130", Organization: "Universal Studios", Department: "Tour Operations"},
			},
		})
	}
	each := (live() - before) / n
	t.Logf("%d bytes a user", each)
	if each > most {
		t.Errorf("a user needs %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(m)
}

// live returns the live memory in bytes.
func live() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func BenchmarkQueries(b *testing.B) {
	m, tenant := populated(b)
	sorted := query(b, tenant.user, "")
	ref, _ := tenant.user.Resolve("", "name", "familyName")
	sorted.Order, sorted.Count = &scim.Order{By: ref, Descending: true}, 100
	after := scim.PositionOf(time.Unix(1_700_000_000+many/100-2, 0), "")
	for _, c := range []struct {
		name string
		t    *schema.ResourceType
		q    *scim.Query
		want int
	}{
		{"page at 0", tenant.user, &scim.Query{Count: 100}, 100},
		{"page at 99,900", tenant.user, &scim.Query{Start: many - 100, Count: 100}, 100},
		{"page after a cursor", tenant.user, &scim.Query{After: &after, Count: 100}, 100},
		{"externalId eq", tenant.user, query(b, tenant.user, `externalId eq "ext-77777"`), 1},
		{"emails.value eq", tenant.user, query(b, tenant.user, `emails[type eq "work"].value eq "USER77777@example.com"`), 1},
		{"members.value eq", tenant.group, query(b, tenant.group, `members.value eq "u001234"`), 1},
		{"groups.value eq", tenant.user, query(b, tenant.user, `groups.value eq "g7"`), 50},
		{"scan by title and name", tenant.user, query(b, tenant.user, `title eq "engineer" and name.familyName eq "99999"`), 1},
		{"scan by displayName co", tenant.user, query(b, tenant.user, `displayName co "99999"`), 1},
		{"sorted by name", tenant.user, sorted, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				c.q.Use = func(*schema.Resource) error { n++; return nil }
				if _, err := tenant.ListResources(b.Context(), c.t, c.q); err != nil || n != c.want {
					b.Fatalf("%d resources, %v", n, err)
				}
			}
		})
	}
	b.Run("a change between pages", func(b *testing.B) {
		b.ReportAllocs()
		u := m.users.visible("acme", "u050000")
		for b.Loop() {
			m.put(u)
			if _, err := tenant.ListResources(b.Context(), tenant.user, &scim.Query{Start: many - 100, Count: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOnServer measures create, lookup and the change of one member with an API server.
func BenchmarkOnServer(b *testing.B) {
	b.Run("create user", func(b *testing.B) {
		r := newFixture(b)
		n := 0
		for b.Loop() {
			n++
			r.user(fmt.Sprintf("user%d@example.com", n))
		}
	})
	b.Run("userName eq", func(b *testing.B) {
		r := newFixture(b)
		r.user("user@example.com")
		q := query(b, r.Tenant.user, `userName eq "USER@example.com"`)
		for b.Loop() {
			if page, err := r.ListResources(b.Context(), r.Tenant.user, q); err != nil || page.Total != 1 {
				b.Fatal(page, err)
			}
		}
	})
	for _, size := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("one member of %d", size), func(b *testing.B) {
			r := newFixture(b)
			g := r.group("g", scimtest.Sequence("m", 0, size)...)
			n := 0
			for b.Loop() {
				n++
				if err := r.change(r.Tenant, g.ID, func(s schema.Set) { scimtest.AddMembers(s, fmt.Sprintf("n%d", n)) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
