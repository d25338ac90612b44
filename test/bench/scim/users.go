package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
)

// user is what an identity provider sends of one; its number is all that users differ by.
const (
	user = `{"schemas":["` + userURN + `","` + enterpriseURN + `"],"userName":"user.0000000@bench.example.com","externalId":"00u0000000",` +
		`"name":{"givenName":"Given0000000","familyName":"Family0000000","formatted":"Given0000000 Family0000000"},"displayName":"Given0000000 Family0000000",` +
		`"title":"Analyst","locale":"en-GB","timezone":"Europe/London","emails":[{"value":"user.0000000@bench.example.com","type":"work","primary":true}],` +
		`"phoneNumbers":[{"value":"+44 20 0000000","type":"work"}],"active":true,` +
		`"` + enterpriseURN + `":{"employeeNumber":"0000000","costCenter":"4130","organization":"Universal Studios","department":"Tour Operations"}}`
	number = "0000000"
)

// numbered is a text about the user with a number.
func numbered[T string | []byte](text T, i int) []byte {
	return bytes.ReplaceAll([]byte(text), []byte(number), fmt.Appendf(nil, "%07d", i))
}

// eq is the query for what the user with a number has.
func eq(attribute, value string, i int) string {
	return "/Users?filter=" + url.QueryEscape(fmt.Sprintf(`%s eq "%s"`, attribute, numbered(value, i)))
}

// random numbers are the same in each run.
var random = rand.New(rand.NewPCG(1, 2))

// anyOf are n random numbers below a limit.
func anyOf(n, limit int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = random.IntN(limit)
	}
	return all
}

// createUser is a request that creates users from a number on.
func (b *bench) createUser(s *service, from int) timed {
	return func(ctx context.Context, i int) (took time.Duration, err error) {
		b.ids[from+i], took, err = s.create(ctx, "/Users", numbered(user, from+i))
		return took, err
	}
}

// creates compares creating users over SCIM with creating the same objects with a Kubernetes client.
// Both are users of the same account, and cost the controller the same: one write of a status. For
// that the claims on the names of the raw ones, which SCIM makes within its time, are made before
// theirs.
func (b *bench) creates(ctx context.Context) error {
	b.unfilled = b.world.front.memory(b.world.metrics)
	var scim, raw measured
	var ratios []float64
	scimCPU, rawCPU := map[string]float64{}, map[string]float64{}
	next := 0
	for turn := range b.turns {
		n := b.options.creates*(turn+1)/b.turns - b.options.creates*turn/b.turns
		if n == 0 {
			continue
		}
		before := b.world.processorTime()
		s, err := spread(ctx, n, b.callers, b.createUser(b.world.rfc, next))
		if err != nil {
			return err
		}
		b.world.settle(ctx)
		addIncrease(scimCPU, before, b.world.processorTime())
		next += n
		objects, err := b.rawUsers(ctx, next, n)
		if err != nil {
			return err
		}
		b.world.settle(ctx)
		before = b.world.processorTime()
		d, err := spread(ctx, n, b.callers, func(ctx context.Context, i int) (time.Duration, error) {
			start := time.Now()
			err := b.world.k8s.Create(ctx, objects[i])
			return time.Since(start), err
		})
		if err != nil {
			return err
		}
		b.world.settle(ctx)
		addIncrease(rawCPU, before, b.world.processorTime())
		next += n
		ratios = append(ratios, s.perSecond()/d.perSecond())
		progress("  turn %d: SCIM %.0f/s, raw %.0f/s, ratio %.2f", turn+1, s.perSecond(), d.perSecond(), ratios[len(ratios)-1])
		scim, raw = scim.with(s), raw.with(d)
	}
	b.report.add(workCreate, scim, "%d at once; %s", b.callers, perRequest(scimCPU, len(scim.each)))
	b.report.add("raw create of the same object", raw, "%d at once; %s", b.callers, perRequest(rawCPU, len(raw.each)))
	b.report.atLeast(fmt.Sprintf("creates over SCIM ÷ raw creates (turns: %.2f to %.2f)", least(ratios), most(ratios)), scim.perSecond()/raw.perSecond(), 0.45, "")
	return nil
}

// rawUsers are users from a number on as SCIM would store them, and the claims on their names.
func (b *bench) rawUsers(ctx context.Context, from, n int) ([]*v1alpha1.ScimUser, error) {
	if b.template == nil {
		if err := b.readTemplate(ctx); err != nil {
			return nil, err
		}
	}
	users := make([]*v1alpha1.ScimUser, n)
	for i := range users {
		users[i] = &v1alpha1.ScimUser{}
		if err := json.Unmarshal(numbered(b.template, from+i), users[i]); err != nil {
			return nil, err
		}
		users[i].Namespace, users[i].Name = namespace, string(uuid.NewUUID())
		b.ids[from+i] = users[i].Name
	}
	_, err := spread(ctx, n, b.callers, func(ctx context.Context, i int) (time.Duration, error) {
		return 0, b.world.k8s.Create(ctx, &v1alpha1.Claim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claims.UserName.Name(users[i].Spec.UserName)},
			Spec: v1alpha1.ClaimSpec{
				Attribute: claims.UserName.Kind + "." + claims.UserName.Field, Holder: v1alpha1.ClaimHolder{Kind: claims.UserName.Kind, Name: users[i].Name},
			},
		})
	})
	return users, err
}

// readTemplate reads the first user as SCIM has stored it.
func (b *bench) readTemplate(ctx context.Context) error {
	stored := &v1alpha1.ScimUser{}
	if err := b.world.k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: b.ids[0]}, stored); err != nil {
		return err
	}
	var err error
	b.template, err = json.Marshal(&v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Labels: stored.Labels, Annotations: stored.Annotations, Finalizers: stored.Finalizers}, Spec: stored.Spec,
	})
	return err
}

// fill creates the other users.
func (b *bench) fill(ctx context.Context) error {
	from := 2 * b.options.creates
	n := b.users - from
	if n == 0 {
		return nil
	}
	m, err := spread(ctx, n, b.callers, reporting("users", n, b.createUser(b.world.rfc, from)))
	if err == nil {
		b.report.add("POST /Users, filling up", m, "%d at once", b.callers)
	}
	return err
}

// memory tells what users and groups cost.
func (b *bench) memory(context.Context) error {
	now := b.world.front.memory(b.world.metrics)
	each := func(before, after float64) float64 { return (after - before) * 1024 / float64(b.users) }
	b.report.fact("memory of quoin apiserver", "%.0f MiB resident, %.0f live; before there were users %.0f, %.0f: **%.1f KiB a user** (%.1f live), groups included",
		now.resident, now.live, b.unfilled.resident, b.unfilled.live, each(b.unfilled.resident, now.resident), each(b.unfilled.live, now.live))
	return nil
}

// lookups finds users by what identity providers know of them.
func (b *bench) lookups(ctx context.Context) error {
	who := anyOf(b.options.lookups, b.users)
	by := func(attribute, value string) timed {
		return func(ctx context.Context, i int) (time.Duration, error) {
			found, took, err := b.world.rfc.list(ctx, eq(attribute, value, who[i]), 1)
			if err == nil && found.Resources[0].ID != b.ids[who[i]] {
				err = fmt.Errorf("%s of user %d finds %q instead of %q", attribute, who[i], found.Resources[0].ID, b.ids[who[i]])
			}
			return took, err
		}
	}
	userName := by("userName", "user."+number+"@bench.example.com")
	rawGet := func(ctx context.Context, i int) (time.Duration, error) {
		_, took, err := b.world.direct.call(ctx, http.MethodGet, "/scimusers/"+b.ids[who[i]], nil, http.StatusOK)
		return took, err
	}
	one, err := inTurns(ctx, len(who), userName, rawGet, by("externalId", "00u"+number), by("emails.value", "user."+number+"@bench.example.com"))
	if err != nil {
		return err
	}
	b.report.add(workLookup, one[0], "%.1f × the raw GET", one[0].ms(0.5)/one[1].ms(0.5))
	b.report.add("raw GET of the object", one[1], "")
	b.report.add("externalId eq", one[2], "%.1f × the raw GET", one[2].ms(0.5)/one[1].ms(0.5))
	b.report.add("emails.value eq", one[3], "%.1f × the raw GET", one[3].ms(0.5)/one[1].ms(0.5))
	b.report.atMost("userName eq, p99", one[0].ms(0.99), 5, " ms")
	b.report.atMost("externalId eq, p99", one[2].ms(0.99), 5, " ms")
	b.report.atMost("emails.value eq, p99", one[3].ms(0.99), 5, " ms")
	const several = 8
	eight, err := spread(ctx, len(who), several, userName)
	if err != nil {
		return err
	}
	rawEight, err := spread(ctx, len(who), several, rawGet)
	if err != nil {
		return err
	}
	b.report.add(workLookup+", several at once", eight, "%d at once; %.1f × the raw GET", several, eight.ms(0.5)/rawEight.ms(0.5))
	b.report.add("raw GET of the object, several at once", rawEight, "%d at once", several)
	return nil
}

// sync does what Entra ID does at first: each user is looked for, and created.
func (b *bench) sync(ctx context.Context) error {
	create := b.createUser(b.world.entra, b.users)
	var matches, posts = make([]time.Duration, b.options.sync), make([]time.Duration, b.options.sync)
	all, err := spread(ctx, b.options.sync, b.syncWorkers, reporting("users", b.options.sync, func(ctx context.Context, i int) (took time.Duration, err error) {
		if _, matches[i], err = b.world.entra.list(ctx, eq("userName", "user."+number+"@bench.example.com", b.users+i), 0); err != nil {
			return 0, err
		}
		posts[i], err = create(ctx, i)
		return matches[i] + posts[i], err
	}))
	if err != nil {
		return err
	}
	b.report.add("match, as Entra ID", measured{matches, all.took}, "%d workers", b.syncWorkers)
	b.report.add("and create", measured{posts, all.took}, "%d workers", b.syncWorkers)
	b.report.atLeast("Entra-like sync", 2*all.perSecond(), 25, " requests/s")
	return nil
}
