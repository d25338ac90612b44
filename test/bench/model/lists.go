package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// maxListTime is the bar for the p99 of a list, in milliseconds.
const maxListTime = 50

// list measures the tree and the hashes of a large model.
func (b *bench) list(ctx context.Context) error {
	id, err := b.newDeployment(ctx)
	if err != nil {
		return err
	}
	took, err := b.push(ctx, b.listedModel, id)
	if err != nil {
		return err
	}
	b.report.Add(fmt.Sprintf("%s: git push of %d files of 1 KiB", b.name, b.listed), timesOf([]time.Duration{took}), "")
	for _, kind := range []struct{ what, path, item string }{
		{"tree", "/build/api/v1/deployments/" + id + "/data-model/files", `"type":"file"`},
		{"file-hashes", newer(id).hashes, `"hash":`},
	} {
		// The first request after the push reads what later ones have in memory.
		first, err := b.listOnce(ctx, kind.path, kind.item)
		if err != nil {
			return err
		}
		times, err := measure.Spread(ctx, b.lists, 1, func(ctx context.Context, _ int) (time.Duration, error) {
			return b.listOnce(ctx, kind.path, kind.item)
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s: %s of %d files", b.name, kind.what, b.listed)
		b.report.Add(what, times, "%.0f ms the first time", first.Seconds()*1000)
		b.report.AtMost(what+", p99", times.Milliseconds(.99), maxListTime, " ms")
	}
	return nil
}

// listOnce requests a list, and checks that it has all files.
func (b *bench) listOnce(ctx context.Context, path, item string) (time.Duration, error) {
	answer, took, err := b.client().get(ctx, path)
	if n := bytes.Count(answer, []byte(item)); err == nil && n%b.listed != 0 || n == 0 && err == nil {
		err = fmt.Errorf("GET %s: %d files of %d", path, n, b.listed)
	}
	return took, err
}
