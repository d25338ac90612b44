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
	"github.com/quoin-dev/quoin/internal/claims"
)

var errDied = errors.New("the process died")

// mortal is the client of a process that dies at a write: before the API server gets it, or after
// it was done and before anybody knows.
type mortal struct {
	mu     sync.Mutex
	writes int
	// at is the write that it dies at, from 1, and after whether it is done.
	at    int
	after bool
	died  bool
}

func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	if m.died {
		m.mu.Unlock()
		return errDied
	}
	m.writes++
	m.died = m.writes == m.at
	died := m.died
	m.mu.Unlock()
	if died && !m.after {
		return errDied
	}
	err := do()
	if died {
		return errDied
	}
	return err
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.died
}

func (m *mortal) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if m.isDead() {
				return errDied
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

// life is something that a process does, and what must be so whenever it dies meanwhile.
type life struct {
	// do is done by the process that dies; id is that of the user or group it is done to.
	do func(t *Tenant, ctx context.Context, id string) error
	// then is done by another process afterwards.
	then func(r *room, id string)
	// ofGroup is done to a group.
	ofGroup bool
}

// TestDeathAtEveryWrite: whatever write a process dies at, nothing is blocked, no member is lost
// and none is there twice.
func TestDeathAtEveryWrite(t *testing.T) {
	big := numbered("m", 0, 600)
	lives := map[string]life{
		"create user": {
			do: func(on *Tenant, ctx context.Context, _ string) error {
				_, err := on.CreateResource(ctx, on.user, schema.Document{"userName": "new"})
				return err
			},
			then: func(r *room, _ string) { r.wantOne(r.Tenant.user, "userName", "new") },
		},
		"rename user": {
			do: func(on *Tenant, ctx context.Context, id string) error { return renameUser(on, ctx, id, "new") },
			then: func(r *room, id string) {
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
			then: func(r *room, id string) {
				if err := r.DeleteResource(r.t.Context(), r.Tenant.user, id, pass); err != nil {
					wantError(r.t, err, 404, "")
				}
				if got := r.wantOne(r.Tenant.user, "userName", "old"); got == id {
					r.t.Error("an id was given again")
				}
				for _, g := range r.find(r.Tenant, r.Tenant.group, "") {
					if slices.Contains(r.shown(g), id) {
						r.t.Error("a deleted user is shown as a member")
					}
				}
			},
		},
		"create group": {
			do: func(on *Tenant, ctx context.Context, _ string) error {
				_, err := on.CreateResource(ctx, on.group, schema.Document{"displayName": "new", "members": memberList(big...)})
				return err
			},
			then: func(r *room, _ string) {
				id := r.wantOne(r.Tenant.group, "displayName", "new")
				r.must(r.change(r.Tenant, id, func(s schema.Set) { put(s, big...) }))
				r.wantKept(id, big)
			},
		},
		"change members": {
			ofGroup: true,
			do: func(on *Tenant, ctx context.Context, id string) error {
				_, err := on.ReplaceResource(ctx, on.group, id, func(g *schema.Resource) (schema.Document, error) {
					s := g.Document["members"].(schema.Set)
					put(s, big...)
					s.Delete("first")
					return g.Document, nil
				})
				return err
			},
			then: func(r *room, id string) {
				if got := r.kept(r.Tenant, id); !slices.Equal(got, []string{"first", "second"}) && !slices.Equal(got, append(slices.Clone(big), "second")) {
					r.t.Errorf("%d members: neither those of before nor those of after", len(got))
				}
				r.must(r.change(r.Tenant, id, func(s schema.Set) { put(s, big...); s.Delete("first") }))
				r.wantKept(id, append(slices.Clone(big), "second"))
			},
		},
	}
	for name, l := range lives {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done: %v", name, after), func(t *testing.T) {
				t.Parallel() // mostly they wait
				for at := 1; l.live(t, at, after); at++ {
				}
			})
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

// live lets a process die at a write, and tells whether it did.
func (l life) live(t *testing.T, at int, after bool) bool {
	r := newRoom(t)
	id := r.user("old").ID
	g := r.group("old", "first", "second")
	in := []string{r.group("in it", id).ID, r.group("in it too", id, "first").ID}
	if l.ofGroup {
		id = g.ID
	}
	m := &mortal{at: at, after: after}
	process := r.replica(m.wrap(r.api)).Of(r.account)
	err := l.do(process, t.Context(), id)
	if !m.isDead() {
		r.must(err)
	}
	where := fmt.Sprintf("write %d, done: %v", at, after)
	t.Log(where, err)
	r.Tenant = r.replica(r.api).Of(r.account)
	r.d = r.Tenant.d
	l.then(r, id)
	for _, g := range in {
		if got := r.kept(r.Tenant, g); len(got) > 2 || len(slices.Compact(got)) != len(got) {
			t.Errorf("%s: members %v", where, got)
		}
	}
	if t.Failed() {
		t.Fatal(where)
	}
	return m.isDead()
}

// wantOne wants one resource to have a unique value in the end, and returns its id: nobody who
// wants it is turned away unless somebody has it.
func (r *room) wantOne(rt *schema.ResourceType, name, value string) string {
	r.t.Helper()
	made, err := r.CreateResource(r.t.Context(), rt, schema.Document{name: value})
	if err != nil {
		wantError(r.t, err, 409, "uniqueness")
	}
	got := r.find(r.Tenant, rt, fmt.Sprintf("%s eq %q", name, value))
	if len(got) != 1 || err == nil && got[0] != made.ID {
		r.t.Fatalf("%s %s is that of %v", name, value, got)
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

func (r *room) wantKept(id string, want []string) {
	r.t.Helper()
	if got := r.kept(r.Tenant, id); !slices.Equal(got, sorted(want)) {
		r.t.Errorf("%d members, want %d", len(got), len(want))
	}
}

// TestLostAnswers: a create whose answer got lost is a success, because it is one; one that never
// came through is none, and can be tried again.
func TestLostAnswers(t *testing.T) {
	r := newRoom(t)
	reset := errors.New("connection reset by peer")
	for _, through := range []bool{true, false} {
		lossy := interceptor.NewClient(r.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, isUser := o.(*v1alpha1.ScimUser); !isUser {
					return c.Create(ctx, o, opts...)
				}
				if !through {
					return reset
				}
				return errors.Join(reset, c.Create(ctx, o, opts...))
			},
		})
		on := r.replica(lossy).Of(r.account)
		u, err := on.CreateResource(t.Context(), on.user, schema.Document{"userName": "u"})
		if (err == nil) != through {
			t.Fatalf("came through: %v, and got %v", through, err)
		}
		if through {
			if _, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, nil); err != nil {
				t.Error(err)
			}
			r.must(r.DeleteResource(t.Context(), r.Tenant.user, u.ID, pass))
		}
	}
	r.user("u")
}

// TestSlowWrites: who took so long that somebody else has the name by now has it no more.
func TestSlowWrites(t *testing.T) {
	r := newRoom(t)
	robbed := &v1alpha1.Claim{}
	slow := interceptor.NewClient(r.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, isUser := o.(*v1alpha1.ScimUser); isUser {
				r.rob(robbed, "slow")
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			r.rob(robbed, "slow")
			return c.Patch(ctx, o, p, opts...)
		},
	})
	d := r.replica(slow)
	clk := testingclock.NewFakeClock(time.Now())
	d.clock = sleepy{clk}
	on := d.Of(r.account)
	_, err := on.CreateResource(t.Context(), on.user, schema.Document{"userName": "slow"})
	wantError(t, err, 409, "uniqueness")
	r.eventually(func() bool { return len(r.find(r.Tenant, r.Tenant.user, "")) == 0 })
	r.must(r.api.Delete(t.Context(), robbed))
	u := r.user("fast")
	wantError(t, renameUser(on, t.Context(), u.ID, "slow"), 409, "uniqueness")
	got, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, nil)
	r.must(err)
	if got.Document["userName"] != "fast" {
		t.Errorf("got %v", got.Document["userName"])
	}
}

// sleepy is a clock by which everything takes long.
type sleepy struct{ *testingclock.FakeClock }

// Since implements clock.Clock.
func (sleepy) Since(time.Time) time.Duration { return time.Hour }

// rob gives a name to somebody else.
func (r *room) rob(c *v1alpha1.Claim, userName string) {
	key := client.ObjectKey{Namespace: r.namespace, Name: claims.UserName.Name(userName)}
	if err := r.api.Get(r.t.Context(), key, c); err != nil {
		return
	}
	c.Spec.Holder.Name = "robber"
	r.must(r.api.Update(r.t.Context(), c))
}
