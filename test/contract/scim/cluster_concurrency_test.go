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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func TestOneUserNameIsGivenOnce(t *testing.T) {
	admin := acme.as(acme.rfc)
	for round := range 2 {
		name := unique("Race")
		const scim, kubectl = 64, 4
		var created, conflicts atomic.Int64
		objects := make([]*v1alpha1.ScimUser, kubectl)
		for i := range objects {
			objects[i] = scimUser(dns("race"), strings.ToLower(name))
		}
		ids := make([]string, scim)
		each(scim+kubectl, func(i int) {
			if i >= scim {
				if err := k8s.Create(t.Context(), objects[i-scim]); err != nil {
					t.Error(err)
				}
				return
			}
			got, err := admin.at(i%2).try(t.Context(), "POST", "/Users", `{"userName":`+quote(name)+`}`)
			switch {
			case err != nil:
				t.Error(err)
			case got.status == 201:
				got.t = t
				ids[i] = got.text("id")
				created.Add(1)
			case got.status == 409:
				got.t = t
				got.want("scimType", "uniqueness")
				conflicts.Add(1)
			default:
				t.Errorf("%d: %s", got.status, got.raw)
			}
		})
		winners := 0
		for _, o := range objects {
			t.Cleanup(func() { _ = k8s.Delete(context.WithoutCancel(t.Context()), o) })
			if hasItsName(t, o.Name) {
				winners++
			}
		}
		if created.Load()+int64(winners) != 1 || created.Load()+conflicts.Load() != scim {
			t.Errorf("round %d: %d created and %d conflicts over SCIM, %d objects of kubectl won", round, created.Load(), conflicts.Load(), winners)
		}
		totals(t, "/Users", `userName eq `+quote(name), 1)
		for _, id := range ids {
			if id != "" {
				admin.call(t, "DELETE", "/Users/"+id, nil).is(204)
			}
		}
	}
}

// hasItsName waits until the controller has said whether a user has its name.
func hasItsName(t *testing.T, name string) (has bool) {
	t.Helper()
	soon(t, "a verdict on "+name, func() error {
		u := read(t, name, &v1alpha1.ScimUser{})
		c := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionReady)
		has = c != nil && c.Status == metav1.ConditionTrue
		if has || c != nil && c.Reason == v1alpha1.ReasonNameTaken {
			return nil
		}
		return fmt.Errorf("its condition is %+v", c)
	})
	return has
}

func TestConcurrentPatchesOfOneGroupLoseNothing(t *testing.T) {
	admin := acme.as(acme.rfc)
	const n = 40
	ids := make([]string, n)
	for i := range ids {
		ids[i] = admin.user(t, unique("m"))
	}
	group := admin.group(t, unique("g"))
	each(n, func(i int) {
		got, err := admin.at(i%2).try(t.Context(), "PATCH", "/Groups/"+group, patch(`{"op":"add","path":"members","value":[{"value":"`+ids[i]+`"}]}`))
		if err != nil || got.status != 200 {
			t.Errorf("%d: %v %s", i, err, got)
		}
	})
	members := admin.call(t, "GET", "/Groups/"+group, nil).is(200).memberIDs()
	for _, id := range ids {
		if !members[id] {
			t.Errorf("%s is lost", id)
		}
	}
	each(n, func(i int) {
		got, err := admin.at(i%2).try(t.Context(), "PATCH", "/Groups/"+group, patch(`{"op":"remove","path":"members[value eq \"`+ids[i]+`\"]"}`))
		if err != nil || got.status != 200 {
			t.Errorf("%d: %v %s", i, err, got)
		}
	})
	admin.call(t, "GET", "/Groups/"+group, nil).is(200).want("members", nil)
}

func TestWhatOneReplicaWroteItListsAtOnce(t *testing.T) {
	for replica := range replicas {
		admin := acme.as(acme.rfc).at(replica)
		mark := unique("own")
		all := `title eq ` + quote(mark)
		for i := range 20 {
			id := admin.user(t, unique("own"), `"title":`+quote(mark))
			if got := admin.find(t, "/Users", all).is(200).ids(); len(got) != 1 || got[0] != id {
				t.Fatalf("replica %d, round %d: created %s, listed %v", replica, i, id, got)
			}
			admin.call(t, "PATCH", "/Users/"+id, patch(`{"op":"replace","path":"nickName","value":`+quote(mark)+`}`)).is(200)
			admin.find(t, "/Users", `nickName eq `+quote(mark)).is(200).want("totalResults", 1)
			group := admin.group(t, unique("own"), id)
			admin.find(t, "/Users", `groups.value eq "`+group+`"`).is(200).want("totalResults", 1)
			admin.find(t, "/Groups", `members.value eq "`+id+`"`).is(200).want("Resources.0.id", group)
			admin.call(t, "PATCH", "/Groups/"+group, patch(`{"op":"remove","path":"members"}`)).is(200)
			admin.find(t, "/Users", `groups.value eq "`+group+`"`).is(200).want("totalResults", 0)
			admin.call(t, "DELETE", "/Users/"+id, nil).is(204)
			admin.find(t, "/Users", all).is(200).want("totalResults", 0)
			admin.find(t, "/Users", `nickName eq `+quote(mark)).is(200).want("totalResults", 0)
		}
	}
}

// crashes is what clients were told while the front end was killed again and again.
type crashes struct {
	as
	group string

	mu sync.Mutex
	// created are the ids by userName of what was acknowledged, attempted all names that were sent.
	created   map[string]string
	attempted []string
	// members are those whose addition to the group was acknowledged.
	members []string
}

// write creates users and adds them to the group until the context ends.
func (c *crashes) write(ctx context.Context) {
	for ctx.Err() == nil {
		name := unique("crash")
		c.mu.Lock()
		c.attempted = append(c.attempted, name)
		c.mu.Unlock()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		got, err := c.try(within, "POST", "/Users", `{"userName":`+quote(name)+`}`)
		if err == nil && got.status == 201 {
			got.t = quiet{}
			id := got.text("id")
			c.mu.Lock()
			c.created[name] = id
			c.mu.Unlock()
			if got, err := c.try(within, "PATCH", "/Groups/"+c.group, patch(`{"op":"add","path":"members","value":[{"value":"`+id+`"}]}`)); err == nil && (got.status == 200 || got.status == 204) {
				c.mu.Lock()
				c.members = append(c.members, id)
				c.mu.Unlock()
			}
		} else if err != nil {
			time.Sleep(200 * time.Millisecond) // it is gone
		}
		cancel()
	}
}

// quiet reads an answer where no test may be told.
type quiet struct{ testing.TB }

// Helper implements testing.TB.
func (quiet) Helper() {}

// Fatalf implements testing.TB.
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestKillingAFrontEndLosesAndBlocksNothing(t *testing.T) {
	admin := acme.as(acme.rfc)
	c := &crashes{as: admin, group: admin.group(t, unique("g")), created: map[string]string{}}
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
		fronts[0].Kill()
		if err := fronts[0].Start(); err != nil {
			t.Fatal(err)
		}
		soon(t, "the front end is back", func() error { return acme.reachable(0) })
	}
	time.Sleep(200 * time.Millisecond)
	stop()
	writers.Wait()
	t.Logf("%d names attempted, %d users and %d members acknowledged", len(c.attempted), len(c.created), len(c.members))
	if len(c.created) < 10 || len(c.members) < 10 {
		t.Error("too few writes to tell anything")
	}
	members := admin.call(t, "GET", "/Groups/"+c.group, nil).is(200).memberIDs()
	for _, id := range c.members {
		if !members[id] {
			t.Errorf("member %s is lost", id)
		}
	}
	c.check(t)
}

// check asks for every name that was sent.
func (c *crashes) check(t *testing.T) {
	for _, name := range c.attempted {
		if id, acknowledged := c.created[name]; acknowledged {
			for replica := range replicas {
				got := c.at(replica).find(t, "/Users", `userName eq `+quote(name)).is(200)
				if !slices.Equal(got.ids(), []string{id}) {
					t.Errorf("%s was acknowledged as %s; there is %v", name, id, got.ids())
				}
			}
			continue
		}
		again, err := c.try(t.Context(), "POST", "/Users", `{"userName":`+quote(name)+`}`)
		if err != nil {
			t.Fatal(err)
		}
		found := c.find(t, "/Users", `userName eq `+quote(name)).is(200).want("totalResults", 1)
		again.t = t
		switch {
		case again.status == 201 && slices.Equal(found.ids(), []string{again.text("id")}):
		case again.status == 409 && len(found.ids()) == 1:
		default:
			t.Errorf("%s is blocked: %d %s, and there is %v", name, again.status, again.raw, found.ids())
		}
	}
	for _, name := range c.attempted {
		for _, id := range c.find(t, "/Users", `userName eq `+quote(name)).is(200).ids() {
			c.call(t, "DELETE", "/Users/"+id, nil).is(204)
		}
	}
}

func TestALargeGroup(t *testing.T) {
	admin := acme.as(acme.rfc)
	const n = 2000
	ids := bulkUsers(t, admin, n)
	extra := admin.user(t, unique("extra"))
	path := "/Groups/" + admin.group(t, unique("large"), ids...)
	count := func(want int, extraIn bool) {
		t.Helper()
		for replica := range replicas {
			soon(t, fmt.Sprintf("members on replica %d", replica), func() error {
				members := admin.at(replica).call(t, "GET", path, nil).is(200).memberIDs()
				if len(members) != want || members[extra] != extraIn {
					return fmt.Errorf("%d members, want %d; the further one: %v", len(members), want, members[extra])
				}
				return nil
			})
		}
	}
	change := func(operation string) {
		t.Helper()
		if got := admin.call(t, "PATCH", path, patch(operation)); got.status != 200 && got.status != 204 {
			t.Fatalf("%d: %s", got.status, got.raw)
		}
	}
	count(n, false)
	change(`{"op":"add","path":"members","value":[{"value":"` + extra + `"}]}`)
	count(n+1, true)
	before := admin.call(t, "GET", path+"?attributes=displayName,meta", nil).is(200)
	change(`{"op":"add","path":"members","value":[{"value":"` + ids[n/2] + `"}]}`)
	admin.call(t, "GET", path+"?attributes=displayName,meta", nil).is(200).want("meta.version", before.at("meta.version"))
	change(`{"op":"remove","path":"members[value eq \"` + ids[0] + `\"]"}`)
	change(`{"op":"remove","path":"members[value eq \"` + extra + `\"]"}`)
	count(n-1, false)
	admin.find(t, "/Users", `groups pr and id eq "`+ids[1]+`"`).is(200).want("totalResults", 1)
	admin.find(t, "/Groups", `members.value eq "`+ids[n-1]+`"`, "excludedAttributes", "members").is(200).want("totalResults", 1).want("Resources.0.members", nil)
	soon(t, "memberCount", func() error {
		if g := read(t, strings.TrimPrefix(path, "/Groups/"), &v1alpha1.ScimGroup{}); g.Status.MemberCount != n-1 {
			return fmt.Errorf("memberCount is %d", g.Status.MemberCount)
		}
		return nil
	})
	admin.call(t, "PATCH", path+"?attributes=displayName", patch(`{"op":"replace","path":"members","value":[{"value":"`+extra+`"}]}`)).is(200).want("members", nil)
	count(1, true)
}

// bulkUsers creates users by bulk requests, and deletes them so with the test.
func bulkUsers(t *testing.T, admin as, n int) []string {
	t.Helper()
	const requests = 8
	var created [requests][]string
	each(requests, func(r int) {
		var operations []string
		for i := range n / requests {
			operations = append(operations, fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":"%d","data":{"userName":%q}}`, i, unique("large")))
		}
		got, err := admin.at(r%2).try(t.Context(), "POST", "/Bulk", bulk(operations...))
		if err != nil || got.status != 200 {
			t.Errorf("%v %s", err, got)
			return
		}
		got.t = t
		for _, o := range got.list("Operations") {
			location, _ := o["location"].(string)
			if o["status"] != "201" {
				t.Errorf("%v", o)
			}
			created[r] = append(created[r], strings.TrimPrefix(location, admin.base()+"/Users/"))
		}
	})
	t.Cleanup(func() {
		each(requests, func(r int) {
			var operations []string
			for _, id := range created[r] {
				operations = append(operations, `{"method":"DELETE","path":"/Users/`+id+`"}`)
			}
			_, _ = admin.at(r%2).try(context.WithoutCancel(t.Context()), "POST", "/Bulk", bulk(operations...))
		})
	})
	return slices.Concat(created[:]...)
}
