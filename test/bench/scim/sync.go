package main

import (
	"context"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// syncUsers does an initial synchronisation like Entra ID: it looks each user up and creates it.
func (b *bench) syncUsers(ctx context.Context) error {
	create := b.createUser(b.world.entra, b.users)
	var matches, posts = make([]time.Duration, b.sync), make([]time.Duration, b.sync)
	all, err := measure.Spread(ctx, b.sync, b.syncWorkers, reporting("users", b.sync, func(ctx context.Context, i int) (took time.Duration, err error) {
		if _, matches[i], err = b.world.entra.list(ctx, eq("userName", "user."+number+"@bench.example.com", b.users+i), 0); err != nil {
			return 0, err
		}
		posts[i], err = create(ctx, i)
		return matches[i] + posts[i], err
	}))
	if err != nil {
		return err
	}
	b.report.Add("match, like Entra ID", measure.Times{Each: matches, Took: all.Took}, "%d workers", b.syncWorkers)
	b.report.Add("and create", measure.Times{Each: posts, Took: all.Took}, "%d workers", b.syncWorkers)
	b.report.AtLeast("match and create, like Entra ID", 2*all.PerSecond(), 25, " requests/s")
	return nil
}
