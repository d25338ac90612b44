package main

import (
	"context"
	"time"
)

// syncUsers does what Entra ID does at first: each user is looked for, and created.
func (b *bench) syncUsers(ctx context.Context) error {
	create := b.createUser(b.world.entra, b.users)
	var matches, posts = make([]time.Duration, b.sync), make([]time.Duration, b.sync)
	all, err := spread(ctx, b.sync, b.syncWorkers, reporting("users", b.sync, func(ctx context.Context, i int) (took time.Duration, err error) {
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
