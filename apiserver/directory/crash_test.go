package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
	"github.com/quoin-dev/quoin/internal/claims"
)

var errKilled = errors.New("process killed")

// crashingClient is the client of a process that is killed at a write: before the request is sent, or
// before the response is received.
type crashingClient struct {
	mu     sync.Mutex
	writes int
	// at is the number of the write, from 1; after means that the write is done.
	at     int
	after  bool
	killed bool
}

func (m *crashingClient) write(do func() error) error {
	m.mu.Lock()
	if m.killed {
		m.mu.Unlock()
		return errKilled
	}
	m.writes++
	m.killed = m.writes == m.at
	killed := m.killed
	m.mu.Unlock()
	if killed && !m.after {
		return errKilled
	}
	err := do()
	if killed {
		return errKilled
	}
	return err
}

func (m *crashingClient) isKilled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed
}

func (m *crashingClient) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if m.isKilled() {
				return errKilled
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return m.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

// crashCase is an operation of a process that is killed, and the checks after it.
type crashCase struct {
	// do is the operation on a user or group with an id.
	do func(t *Tenant, ctx context.Context, id string) error
	// then checks the result in another process.
	then func(r *fixture, id string)
	// onGroup means that do operates on a group.
	onGroup bool
}

// manyMembers need several chunks.
var manyMembers = scimtest.Sequence("m", 0, 600)

var userCrashCases = map[string]crashCase{
	"create user": {
		do: func(on *Tenant, ctx context.Context, _ string) error {
			_, err := on.CreateResource(ctx, on.user, schema.Document{"userName": "new"})
			return err
		},
		then: func(r *fixture, _ string) { r.wantOne(r.Tenant.user, "userName", "new") },
	},
	"rename user": {
		do: func(on *Tenant, ctx context.Context, id string) error { return renameUser(on, ctx, id, "new") },
		then: func(r *fixture, id string) {
			r.must(renameUser(r.Tenant, r.t.Context(), id, "new"))
			if got := r.wantOne(r.Tenant.user, "userName", "old"); got == id {
				r.t.Error("the user has both names")
			}
		},
	},
	"delete user": {
		do: func(on *Tenant, ctx context.Context, id string) error {
			return on.DeleteResource(ctx, on.user, id, pass)
		},
		then: func(r *fixture, id string) {
			if err := r.DeleteResource(r.t.Context(), r.Tenant.user, id, pass); err != nil {
				wantError(r.t, err, 404, "")
			}
			if got := r.wantOne(r.Tenant.user, "userName", "old"); got == id {
				r.t.Error("an id was reused")
			}
			for _, g := range r.find(r.Tenant, r.Tenant.group, "") {
				if slices.Contains(r.visibleMembers(g), id) {
					r.t.Error("a deleted user is a visible member")
				}
			}
		},
	},
}

var groupCrashCases = map[string]crashCase{
	"create group": {
		do: func(on *Tenant, ctx context.Context, _ string) error {
			_, err := on.CreateResource(ctx, on.group, schema.Document{"displayName": "new", "members": memberList(manyMembers...)})
			return err
		},
		then: func(r *fixture, _ string) {
			id := r.wantOne(r.Tenant.group, "displayName", "new")
			r.must(r.change(r.Tenant, id, func(s schema.Set) { scimtest.AddMembers(s, manyMembers...) }))
			r.wantMembers(id, manyMembers)
		},
	},
	"change members": {
		onGroup: true,
		do: func(on *Tenant, ctx context.Context, id string) error {
			_, err := on.ReplaceResource(ctx, on.group, id, func(g *schema.Resource) (schema.Document, error) {
				s := g.Document["members"].(schema.Set)
				scimtest.AddMembers(s, manyMembers...)
				s.Delete("first")
				return g.Document, nil
			})
			return err
		},
		then: func(r *fixture, id string) {
			if got := r.storedMembers(r.Tenant, id); !slices.Equal(got, []string{"first", "second"}) && !slices.Equal(got, append(slices.Clone(manyMembers), "second")) {
				r.t.Errorf("%d members: want those before or those after the change", len(got))
			}
			r.must(r.change(r.Tenant, id, func(s schema.Set) { scimtest.AddMembers(s, manyMembers...); s.Delete("first") }))
			r.wantMembers(id, append(slices.Clone(manyMembers), "second"))
		},
	},
}

// TestCrashAtEveryWrite kills a process at each of its writes and checks that nothing stays blocked and
// that no member is lost or duplicated.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, cases := range []map[string]crashCase{userCrashCases, groupCrashCases} {
		for name, c := range cases {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, done: %v", name, after), func(t *testing.T) {
					t.Parallel() // mostly waiting
					for at := 1; c.run(t, at, after); at++ {
					}
				})
			}
		}
	}
}

func renameUser(on *Tenant, ctx context.Context, id, to string) error {
	_, err := on.ReplaceResource(ctx, on.user, id, func(u *schema.Resource) (schema.Document, error) {
		u.Document["userName"] = to
		return u.Document, nil
	})
	return err
}

// run kills a process at a write and reports whether the process reached that write.
func (c crashCase) run(t *testing.T, at int, after bool) bool {
	r := newFixture(t)
	id := r.user("old").ID
	g := r.group("old", "first", "second")
	in := []string{r.group("in it", id).ID, r.group("in it too", id, "first").ID}
	if c.onGroup {
		id = g.ID
	}
	m := &crashingClient{at: at, after: after}
	process := r.replica(m.wrap(r.api)).Of(r.account)
	err := c.do(process, t.Context(), id)
	if !m.isKilled() {
		r.must(err)
	}
	where := fmt.Sprintf("write %d, done: %v", at, after)
	t.Log(where, err)
	r.Tenant = r.replica(r.api).Of(r.account)
	r.d = r.Tenant.d
	c.then(r, id)
	for _, g := range in {
		if got := r.storedMembers(r.Tenant, g); len(got) > 2 || len(slices.Compact(got)) != len(got) {
			t.Errorf("%s: members %v", where, got)
		}
	}
	if t.Failed() {
		t.Fatal(where)
	}
	return m.isKilled()
}

// wantOne checks that exactly one resource has a unique value after a create, which fails only if
// another resource has the value, and returns its id.
func (r *fixture) wantOne(rt *schema.ResourceType, name, value string) string {
	r.t.Helper()
	made, err := r.CreateResource(r.t.Context(), rt, schema.Document{name: value})
	if err != nil {
		wantError(r.t, err, 409, "uniqueness")
	}
	got := r.find(r.Tenant, rt, fmt.Sprintf("%s eq %q", name, value))
	if len(got) != 1 || err == nil && got[0] != made.ID {
		r.t.Fatalf("%s %s: got %v, want one resource", name, value, got)
	}
	listed := 0
	for _, id := range r.find(r.Tenant, rt, "") {
		u, err := r.GetResource(r.t.Context(), rt, id, nil)
		r.must(err)
		if u.Document[name] == value {
			listed++
		}
	}
	if listed != 1 {
		r.t.Errorf("%d resources have the %s %s", listed, name, value)
	}
	return got[0]
}

func (r *fixture) wantMembers(id string, want []string) {
	r.t.Helper()
	if got := r.storedMembers(r.Tenant, id); !slices.Equal(got, sorted(want)) {
		r.t.Errorf("%d members, want %d", len(got), len(want))
	}
}

// TestLostResponses checks that a create whose response is lost succeeds, and that one whose request is
// lost fails and can be retried.
func TestLostResponses(t *testing.T) {
	r := newFixture(t)
	reset := errors.New("connection reset by peer")
	for _, sent := range []bool{true, false} {
		lossy := interceptor.NewClient(r.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, isUser := o.(*v1alpha1.ScimUser); !isUser {
					return c.Create(ctx, o, opts...)
				}
				if !sent {
					return reset
				}
				return errors.Join(reset, c.Create(ctx, o, opts...))
			},
		})
		on := r.replica(lossy).Of(r.account)
		u, err := on.CreateResource(t.Context(), on.user, schema.Document{"userName": "u"})
		if (err == nil) != sent {
			t.Fatalf("request sent: %v, got %v", sent, err)
		}
		if sent {
			if _, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, nil); err != nil {
				t.Error(err)
			}
			r.must(r.DeleteResource(t.Context(), r.Tenant.user, u.ID, pass))
		}
	}
	r.user("u")
}

// TestExpiredReservations checks that a request whose reservation expired and was taken over fails.
func TestExpiredReservations(t *testing.T) {
	r := newFixture(t)
	takenOver := &v1alpha1.Claim{}
	slow := interceptor.NewClient(r.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, isUser := o.(*v1alpha1.ScimUser); isUser {
				r.takeOver(takenOver, "slow")
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			r.takeOver(takenOver, "slow")
			return c.Patch(ctx, o, p, opts...)
		},
	})
	d := r.replica(slow)
	clk := testingclock.NewFakeClock(time.Now())
	d.clock = slowClock{clk}
	on := d.Of(r.account)
	_, err := on.CreateResource(t.Context(), on.user, schema.Document{"userName": "slow"})
	wantError(t, err, 409, "uniqueness")
	r.eventually(func() bool { return len(r.find(r.Tenant, r.Tenant.user, "")) == 0 })
	r.must(r.api.Delete(t.Context(), takenOver))
	u := r.user("fast")
	wantError(t, renameUser(on, t.Context(), u.ID, "slow"), 409, "uniqueness")
	got, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, nil)
	r.must(err)
	if got.Document["userName"] != "fast" {
		t.Errorf("got %v", got.Document["userName"])
	}
}

// slowClock is a clock on which every operation takes an hour.
type slowClock struct{ *testingclock.FakeClock }

// Since implements clock.Clock.
func (slowClock) Since(time.Time) time.Duration { return time.Hour }

// takeOver transfers the claim on a name to another object.
func (r *fixture) takeOver(c *v1alpha1.Claim, userName string) {
	key := client.ObjectKey{Namespace: r.namespace, Name: claims.UserName.Name(userName)}
	if err := r.api.Get(r.t.Context(), key, c); err != nil {
		return
	}
	c.Spec.Holder.Name = "other"
	r.must(r.api.Update(r.t.Context(), c))
}
