package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// compareCreates compares creating users over SCIM with creating the same objects with a Kubernetes client. Both are
// users of the same account, and the controller writes one status for each. SCIM also creates a Claim for the userName,
// within its time; the Claims of the raw users are created before they are measured.
func (b *bench) compareCreates(ctx context.Context) error {
	b.initialMemory = memoryOf(b.world.quoin)
	var scim, raw measure.Times
	var ratios []float64
	scimCost, rawCost := newCost(), newCost()
	next := 0
	for round := range b.rounds {
		n := b.creates*(round+1)/b.rounds - b.creates*round/b.rounds
		if n == 0 {
			continue
		}
		var s, d measure.Times
		err := scimCost.addOf(ctx, b.world, func() (err error) {
			s, err = measure.Spread(ctx, n, b.callers, b.createUser(b.world.rfc, next))
			return err
		})
		if err != nil {
			return err
		}
		next += n
		objects, err := b.rawUsers(ctx, next, n)
		if err != nil {
			return err
		}
		b.world.server.Settle(ctx)
		err = rawCost.addOf(ctx, b.world, func() (err error) {
			d, err = measure.Spread(ctx, n, b.callers, func(ctx context.Context, i int) (time.Duration, error) {
				start := time.Now()
				err := b.world.server.Create(ctx, objects[i])
				return time.Since(start), err
			})
			return err
		})
		if err != nil {
			return err
		}
		next += n
		ratios = append(ratios, s.PerSecond()/d.PerSecond())
		measure.Progress("  round %d: SCIM %.0f/s, raw %.0f/s, ratio %.2f", round+1, s.PerSecond(), d.PerSecond(), ratios[len(ratios)-1])
		scim, raw = scim.With(s), raw.With(d)
	}
	b.report.Add(workCreate, scim, "%d at once; all programs together %.2f × the processor time of a raw create", b.callers, measure.Total(scimCost.cpu)/measure.Total(rawCost.cpu))
	b.report.cost(workCreate, scimCost, len(scim.Each))
	b.report.Add("raw create of the same object", raw, "%d at once", b.callers)
	b.report.cost("raw create", rawCost, len(raw.Each))
	b.report.AtLeast(fmt.Sprintf("creates over SCIM ÷ raw creates, median of %d rounds (%.2f to %.2f)", len(ratios), slices.Min(ratios), slices.Max(ratios)), measure.Median(ratios), 0.55, "")
	return nil
}

// rawUsers returns n users as SCIM would store them, starting at a number, and creates the Claims on their names.
func (b *bench) rawUsers(ctx context.Context, from, n int) ([]*v1alpha1.ScimUser, error) {
	if b.template == nil {
		if err := b.readTemplate(ctx); err != nil {
			return nil, err
		}
	}
	users := make([]*v1alpha1.ScimUser, n)
	for i := range users {
		users[i] = &v1alpha1.ScimUser{}
		if err := json.Unmarshal(withNumber(b.template, from+i), users[i]); err != nil {
			return nil, err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		users[i].Namespace, users[i].Name = namespace, id.String()
		b.ids[from+i] = users[i].Name
	}
	_, err := measure.Spread(ctx, n, b.callers, func(ctx context.Context, i int) (time.Duration, error) {
		return 0, b.world.server.Create(ctx, &v1alpha1.Claim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claims.UserName.Name(users[i].Spec.UserName)},
			Spec: v1alpha1.ClaimSpec{
				Attribute: claims.UserName.Kind + "." + claims.UserName.Field, Holder: v1alpha1.ClaimHolder{Kind: claims.UserName.Kind, Name: users[i].Name},
			},
		})
	})
	return users, err
}

// readTemplate reads the first user as SCIM stored it.
func (b *bench) readTemplate(ctx context.Context) error {
	stored := &v1alpha1.ScimUser{}
	if err := b.world.server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: b.ids[0]}, stored); err != nil {
		return err
	}
	var err error
	b.template, err = json.Marshal(&v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Labels: stored.Labels, Annotations: stored.Annotations, Finalizers: stored.Finalizers}, Spec: stored.Spec,
	})
	return err
}

// fill creates the remaining users.
func (b *bench) fill(ctx context.Context) error {
	from := 2 * b.creates
	n := b.users - from
	if n == 0 {
		return nil
	}
	m, err := measure.Spread(ctx, n, b.callers, reporting("users", n, b.createUser(b.world.rfc, from)))
	if err == nil {
		b.report.Add("POST /Users, the remaining users", m, "%d at once", b.callers)
	}
	return err
}
