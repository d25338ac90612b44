//go:build !memory

package scim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/scimtest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestConcurrentCreatesOfOneUserName(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	for round := range 2 {
		name := scimtest.UniqueName("Race")
		const scim, kubectl = 64, 4
		var created, conflicts atomic.Int64
		objects := make([]*v1alpha1.ScimUser, kubectl)
		for i := range objects {
			objects[i] = scimUser(dns("race"), strings.ToLower(name))
		}
		ids := make([]string, scim)
		each(scim+kubectl, func(i int) {
			if i >= scim {
				if err := scimtest.Kubernetes.Create(t.Context(), objects[i-scim]); err != nil {
					t.Error(err)
				}
				return
			}
			got, err := admin.OnReplica(i%2).Try(t.Context(), "POST", "/Users", `{"userName":`+scimtest.Quote(name)+`}`)
			switch {
			case err != nil:
				t.Error(err)
			case got.Status == 201:
				got.T = t
				ids[i] = got.Text("id")
				created.Add(1)
			case got.Status == 409:
				got.T = t
				got.Want("scimType", "uniqueness")
				conflicts.Add(1)
			default:
				t.Errorf("%d: %s", got.Status, got.Raw)
			}
		})
		winners := 0
		for _, o := range objects {
			t.Cleanup(func() { _ = scimtest.Kubernetes.Delete(context.WithoutCancel(t.Context()), o) })
			if hasItsName(t, o.Name) {
				winners++
			}
		}
		if created.Load()+int64(winners) != 1 || created.Load()+conflicts.Load() != scim {
			t.Errorf("round %d: %d created and %d conflicts over SCIM, %d objects of kubectl won", round, created.Load(), conflicts.Load(), winners)
		}
		totals(t, "/Users", `userName eq `+scimtest.Quote(name), 1)
		for _, id := range ids {
			if id != "" {
				admin.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
			}
		}
	}
}

// hasItsName waits for the Ready condition of a user and reports whether it holds its name.
func hasItsName(t *testing.T, name string) (has bool) {
	t.Helper()
	soon(t, "a verdict on "+name, func() error {
		u := read(t, name, &v1alpha1.ScimUser{})
		c := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionReady)
		has = c != nil && c.Status == metav1.ConditionTrue
		if has || c != nil && c.Reason == v1alpha1.ReasonNameTaken {
			return nil
		}
		return fmt.Errorf("Ready is %+v", c)
	})
	return has
}

func TestConcurrentPatchesOfOneGroup(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	const n = 40
	ids := make([]string, n)
	for i := range ids {
		ids[i] = admin.CreateUser(t, scimtest.UniqueName("m"))
	}
	group := admin.CreateGroup(t, scimtest.UniqueName("g"))
	each(n, func(i int) {
		got, err := admin.OnReplica(i%2).Try(t.Context(), "PATCH", "/Groups/"+group, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+ids[i]+`"}]}`))
		if err != nil || got.Status != 200 {
			t.Errorf("%d: %v %s", i, err, got)
		}
	})
	members := admin.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200).MemberIDs()
	for _, id := range ids {
		if !members[id] {
			t.Errorf("%s is lost", id)
		}
	}
	each(n, func(i int) {
		got, err := admin.OnReplica(i%2).Try(t.Context(), "PATCH", "/Groups/"+group, scimtest.PatchBody(`{"op":"remove","path":"members[value eq \"`+ids[i]+`\"]"}`))
		if err != nil || got.Status != 200 {
			t.Errorf("%d: %v %s", i, err, got)
		}
	})
	admin.Call(t, "GET", "/Groups/"+group, nil).WantStatus(200).Want("members", nil)
}

func TestReadYourWrites(t *testing.T) {
	for replica := range scimtest.Replicas {
		admin := acme.WithToken(acme.RFC).OnReplica(replica)
		mark := scimtest.UniqueName("own")
		all := `title eq ` + scimtest.Quote(mark)
		for i := range 20 {
			id := admin.CreateUser(t, scimtest.UniqueName("own"), `"title":`+scimtest.Quote(mark))
			if got := admin.Find(t, "/Users", all).WantStatus(200).IDs(); len(got) != 1 || got[0] != id {
				t.Fatalf("replica %d, round %d: created %s, listed %v", replica, i, id, got)
			}
			admin.Call(t, "PATCH", "/Users/"+id, scimtest.PatchBody(`{"op":"replace","path":"nickName","value":`+scimtest.Quote(mark)+`}`)).WantStatus(200)
			admin.Find(t, "/Users", `nickName eq `+scimtest.Quote(mark)).WantStatus(200).Want("totalResults", 1)
			group := admin.CreateGroup(t, scimtest.UniqueName("own"), id)
			admin.Find(t, "/Users", `groups.value eq "`+group+`"`).WantStatus(200).Want("totalResults", 1)
			admin.Find(t, "/Groups", `members.value eq "`+id+`"`).WantStatus(200).Want("Resources.0.id", group)
			admin.Call(t, "PATCH", "/Groups/"+group, scimtest.PatchBody(`{"op":"remove","path":"members"}`)).WantStatus(200)
			admin.Find(t, "/Users", `groups.value eq "`+group+`"`).WantStatus(200).Want("totalResults", 0)
			admin.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
			admin.Find(t, "/Users", all).WantStatus(200).Want("totalResults", 0)
			admin.Find(t, "/Users", `nickName eq `+scimtest.Quote(mark)).WantStatus(200).Want("totalResults", 0)
		}
	}
}

// crashes are the acknowledged writes while an API server is killed repeatedly.
type crashes struct {
	scimtest.Caller
	group string

	mu sync.Mutex
	// created are the acknowledged ids by userName, attempted all names that were sent.
	created   map[string]string
	attempted []string
	// members are the acknowledged members of the group.
	members []string
}

// write creates users and adds them to the group until the context is done.
func (c *crashes) write(ctx context.Context) {
	for ctx.Err() == nil {
		name := scimtest.UniqueName("crash")
		c.mu.Lock()
		c.attempted = append(c.attempted, name)
		c.mu.Unlock()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		got, err := c.Try(within, "POST", "/Users", `{"userName":`+scimtest.Quote(name)+`}`)
		if err == nil && got.Status == 201 {
			got.T = quiet{}
			id := got.Text("id")
			c.mu.Lock()
			c.created[name] = id
			c.mu.Unlock()
			if got, err := c.Try(within, "PATCH", "/Groups/"+c.group, scimtest.PatchBody(`{"op":"add","path":"members","value":[{"value":"`+id+`"}]}`)); err == nil && (got.Status == 200 || got.Status == 204) {
				c.mu.Lock()
				c.members = append(c.members, id)
				c.mu.Unlock()
			}
		} else if err != nil {
			time.Sleep(200 * time.Millisecond) // the replica is down
		}
		cancel()
	}
}

// quiet is a testing.TB for goroutines, in which Fatalf panics.
type quiet struct{ testing.TB }

// Helper implements testing.TB.
func (quiet) Helper() {}

// Fatalf implements testing.TB.
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestKilledAPIServerLosesNoWrites(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	c := &crashes{Caller: admin, group: admin.CreateGroup(t, scimtest.UniqueName("g")), created: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 8 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			c.write(ctx)
		}()
	}
	for i := range 6 {
		time.Sleep(time.Duration(150+i*47) * time.Millisecond)
		scimtest.APIServers[0].Kill()
		if err := scimtest.APIServers[0].Start(); err != nil {
			t.Fatal(err)
		}
		soon(t, "the front end is back", func() error { return acme.Reachable(0) })
	}
	time.Sleep(200 * time.Millisecond)
	stop()
	writers.Wait()
	t.Logf("%d names attempted, %d users and %d members acknowledged", len(c.attempted), len(c.created), len(c.members))
	if len(c.created) < 10 || len(c.members) < 10 {
		t.Error("too few writes to tell anything")
	}
	members := admin.Call(t, "GET", "/Groups/"+c.group, nil).WantStatus(200).MemberIDs()
	for _, id := range c.members {
		if !members[id] {
			t.Errorf("member %s is lost", id)
		}
	}
	c.check(t)
}

// check looks up every name that was sent.
func (c *crashes) check(t *testing.T) {
	for _, name := range c.attempted {
		if id, acknowledged := c.created[name]; acknowledged {
			for replica := range scimtest.Replicas {
				got := c.OnReplica(replica).Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200)
				if !slices.Equal(got.IDs(), []string{id}) {
					t.Errorf("%s was acknowledged as %s; found %v", name, id, got.IDs())
				}
			}
			continue
		}
		again, err := c.Try(t.Context(), "POST", "/Users", `{"userName":`+scimtest.Quote(name)+`}`)
		if err != nil {
			t.Fatal(err)
		}
		found := c.Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200).Want("totalResults", 1)
		again.T = t
		switch {
		case again.Status == 201 && slices.Equal(found.IDs(), []string{again.Text("id")}):
		case again.Status == 409 && len(found.IDs()) == 1:
		default:
			t.Errorf("%s is blocked: %d %s, found %v", name, again.Status, again.Raw, found.IDs())
		}
	}
	for _, name := range c.attempted {
		for _, id := range c.Find(t, "/Users", `userName eq `+scimtest.Quote(name)).WantStatus(200).IDs() {
			c.Call(t, "DELETE", "/Users/"+id, nil).WantStatus(204)
		}
	}
}

func TestLargeGroup(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	const n = 2000
	ids := bulkUsers(t, admin, n)
	extra := admin.CreateUser(t, scimtest.UniqueName("extra"))
	path := "/Groups/" + admin.CreateGroup(t, scimtest.UniqueName("large"), ids...)
	count := func(want int, extraIn bool) {
		t.Helper()
		for replica := range scimtest.Replicas {
			soon(t, fmt.Sprintf("members on replica %d", replica), func() error {
				members := admin.OnReplica(replica).Call(t, "GET", path, nil).WantStatus(200).MemberIDs()
				if len(members) != want || members[extra] != extraIn {
					return fmt.Errorf("%d members, want %d; has the added member: %v", len(members), want, members[extra])
				}
				return nil
			})
		}
	}
	change := func(operation string) {
		t.Helper()
		if got := admin.Call(t, "PATCH", path, scimtest.PatchBody(operation)); got.Status != 200 && got.Status != 204 {
			t.Fatalf("%d: %s", got.Status, got.Raw)
		}
	}
	count(n, false)
	change(`{"op":"add","path":"members","value":[{"value":"` + extra + `"}]}`)
	count(n+1, true)
	before := admin.Call(t, "GET", path+"?attributes=displayName,meta", nil).WantStatus(200)
	change(`{"op":"add","path":"members","value":[{"value":"` + ids[n/2] + `"}]}`)
	admin.Call(t, "GET", path+"?attributes=displayName,meta", nil).WantStatus(200).Want("meta.version", before.Value("meta.version"))
	change(`{"op":"remove","path":"members[value eq \"` + ids[0] + `\"]"}`)
	change(`{"op":"remove","path":"members[value eq \"` + extra + `\"]"}`)
	count(n-1, false)
	admin.Find(t, "/Users", `groups pr and id eq "`+ids[1]+`"`).WantStatus(200).Want("totalResults", 1)
	admin.Find(t, "/Groups", `members.value eq "`+ids[n-1]+`"`, "excludedAttributes", "members").WantStatus(200).Want("totalResults", 1).Want("Resources.0.members", nil)
	soon(t, "memberCount", func() error {
		if g := read(t, strings.TrimPrefix(path, "/Groups/"), &v1alpha1.ScimGroup{}); g.Status.MemberCount != n-1 {
			return fmt.Errorf("memberCount is %d", g.Status.MemberCount)
		}
		return nil
	})
	admin.Call(t, "PATCH", path+"?attributes=displayName", scimtest.PatchBody(`{"op":"replace","path":"members","value":[{"value":"`+extra+`"}]}`)).WantStatus(200).Want("members", nil)
	count(1, true)
}

// bulkUsers creates users with bulk requests, and deletes them after the test.
func bulkUsers(t *testing.T, admin scimtest.Caller, n int) []string {
	t.Helper()
	const requests = 8
	var created [requests][]string
	each(requests, func(r int) {
		var operations []string
		for i := range n / requests {
			operations = append(operations, fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":"%d","data":{"userName":%q}}`, i, scimtest.UniqueName("large")))
		}
		got, err := admin.OnReplica(r%2).Try(t.Context(), "POST", "/Bulk", bulk(operations...))
		if err != nil || got.Status != 200 {
			t.Errorf("%v %s", err, got)
			return
		}
		got.T = t
		for _, o := range got.List("Operations") {
			location, _ := o["location"].(string)
			if o["status"] != "201" {
				t.Errorf("%v", o)
			}
			created[r] = append(created[r], strings.TrimPrefix(location, admin.BaseURL()+"/Users/"))
		}
	})
	t.Cleanup(func() {
		each(requests, func(r int) {
			var operations []string
			for _, id := range created[r] {
				operations = append(operations, `{"method":"DELETE","path":"/Users/`+id+`"}`)
			}
			_, _ = admin.OnReplica(r%2).Try(context.WithoutCancel(t.Context()), "POST", "/Bulk", bulk(operations...))
		})
	})
	return slices.Concat(created[:]...)
}
