package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// lookUp finds users by what identity providers know of them.
func (b *bench) lookUp(ctx context.Context) error {
	who := anyOf(b.lookups, b.users)
	by := func(attribute, value string) measure.Timed {
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
	b.report.Add(workLookup, one[0], "%.1f × the raw GET", one[0].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	b.report.Add("raw GET of the object", one[1], "")
	b.report.Add("externalId eq", one[2], "%.1f × the raw GET", one[2].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	b.report.Add("emails.value eq", one[3], "%.1f × the raw GET", one[3].Milliseconds(0.5)/one[1].Milliseconds(0.5))
	b.report.AtMost(fmt.Sprintf("userName eq, p99 (that of the raw GET: %.2f)", one[1].Milliseconds(0.99)), one[0].Milliseconds(0.99), 5, " ms")
	b.report.AtMost("externalId eq, p99", one[2].Milliseconds(0.99), 5, " ms")
	b.report.AtMost("emails.value eq, p99", one[3].Milliseconds(0.99), 5, " ms")
	const several = 8
	var eight measure.Times
	spent := newCost()
	err = spent.spending(ctx, b.world, func() (err error) {
		eight, err = measure.Spread(ctx, len(who), several, userName)
		return err
	})
	if err != nil {
		return err
	}
	rawEight, err := measure.Spread(ctx, len(who), several, rawGet)
	if err != nil {
		return err
	}
	b.report.Add(workLookup+", several at once", eight, "%d at once; %.1f × the raw GET", several, eight.Milliseconds(0.5)/rawEight.Milliseconds(0.5))
	b.report.cost(workLookup, spent, len(who))
	b.report.Add("raw GET of the object, several at once", rawEight, "%d at once", several)
	return nil
}
