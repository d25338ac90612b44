package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// lookUpUsers finds users by the attributes that identity providers match on. Each kind of lookup has users of its own: the
// first read of an object brings it into the caches of the processor, and a comparison with a second read of it says nothing.
func (b *bench) lookUpUsers(ctx context.Context) error {
	by := func(attribute, value string) measure.Timed {
		users := randomNumbers(b.lookups, b.users)
		return func(ctx context.Context, i int) (time.Duration, error) {
			found, took, err := b.world.rfc.list(ctx, eq(attribute, value, users[i]), 1)
			if err == nil && found.Resources[0].ID != b.ids[users[i]] {
				err = fmt.Errorf("%s of user %d finds %q instead of %q", attribute, users[i], found.Resources[0].ID, b.ids[users[i]])
			}
			return took, err
		}
	}
	userName := by("userName", "user."+number+"@bench.example.com")
	users := randomNumbers(b.lookups, b.users)
	rawGet := func(ctx context.Context, i int) (time.Duration, error) {
		_, took, err := b.world.direct.call(ctx, http.MethodGet, "/scimusers/"+b.ids[users[i]], nil, http.StatusOK)
		return took, err
	}
	one, err := alternate(ctx, b.lookups, userName, rawGet, by("externalId", "00u"+number), by("emails.value", "user."+number+"@bench.example.com"))
	if err != nil {
		return err
	}
	b.report.Add(workLookup, one[0], "%.1f × the raw GET", one[0].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	b.report.Add("raw GET of the object", one[1], "")
	b.report.Add("externalId eq", one[2], "%.1f × the raw GET", one[2].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	b.report.Add("emails.value eq", one[3], "%.1f × the raw GET", one[3].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	get := one[1].Milliseconds(0.99)
	for _, lookup := range []struct {
		attribute string
		p99       float64
	}{{"userName", one[0].Milliseconds(0.99)}, {"externalId", one[2].Milliseconds(0.99)}, {"emails.value", one[3].Milliseconds(0.99)}} {
		b.report.AtMost(fmt.Sprintf("%s eq, p99 (%.1f ms) ÷ p99 of a raw GET (%.1f ms)", lookup.attribute, lookup.p99, get), lookup.p99/get, 1.5, "")
	}
	return b.lookUpConcurrently(ctx, b.lookups, userName, rawGet)
}

// lookUpConcurrently repeats the lookups and the raw requests with several callers.
func (b *bench) lookUpConcurrently(ctx context.Context, n int, userName, rawGet measure.Timed) error {
	const several = 8
	var eight measure.Times
	total := newCost()
	err := total.addOf(ctx, b.world, func() (err error) {
		eight, err = measure.Spread(ctx, n, several, userName)
		return err
	})
	if err != nil {
		return err
	}
	rawEight, err := measure.Spread(ctx, n, several, rawGet)
	if err != nil {
		return err
	}
	b.report.Add(workLookup+", concurrent", eight, "%d at once; %.1f × the raw GET", several, eight.Milliseconds(0.5)/rawEight.Milliseconds(0.5))
	b.report.cost(workLookup, total, n)
	b.report.Add("raw GET of the object, concurrent", rawEight, "%d at once", several)
	return nil
}
