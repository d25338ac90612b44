package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const pageSize = 100

// readPages reads pages of users at offsets, by cursor, and with filters that scan all users.
func (b *bench) readPages(ctx context.Context) error {
	offsets := []int{1, b.users / 2, b.users - pageSize + 1}
	var kinds []measure.Timed
	for _, offset := range offsets {
		path := fmt.Sprintf("/Users?startIndex=%d&count=%d", offset, pageSize)
		kinds = append(kinds, func(ctx context.Context, _ int) (time.Duration, error) {
			_, took, err := b.world.rfc.list(ctx, path, pageSize)
			return took, err
		})
	}
	byOffset, err := alternate(ctx, b.pages, kinds...)
	if err != nil {
		return err
	}
	for i, m := range byOffset {
		what := pageWork(offsets[i])
		b.report.Add(what, m, "")
		b.report.AtMost(what+", p99", m.Milliseconds(0.99), 20, " ms")
	}
	if err := b.walk(ctx); err != nil {
		return err
	}
	const few = 20
	for _, all := range []struct{ what, query string }{
		{`userName co "77@", a scan`, "filter=" + url.QueryEscape(`userName co "77@"`)},
		{"sortBy userName", "sortBy=userName"},
		{"sortBy userName, middle page", fmt.Sprintf("sortBy=userName&startIndex=%d", b.users/2)},
	} {
		m, err := measure.Spread(ctx, few, 1, func(ctx context.Context, _ int) (time.Duration, error) {
			_, took, err := b.world.rfc.list(ctx, fmt.Sprintf("/Users?%s&count=%d", all.query, pageSize), -1)
			return took, err
		})
		if err != nil {
			return err
		}
		b.report.Add(all.what, m, "no bar")
	}
	return nil
}

func pageWork(offset int) string { return fmt.Sprintf("page of %d at %d", pageSize, offset) }

// walk reads consecutive pages by cursor.
func (b *bench) walk(ctx context.Context) error {
	length := min(20, b.users/pageSize)
	next := ""
	m, err := measure.Spread(ctx, b.pages/length*length, 1, func(ctx context.Context, i int) (time.Duration, error) {
		if i%length == 0 {
			next = ""
		}
		page, took, err := b.world.rfc.list(ctx, fmt.Sprintf("/Users?count=%d&cursor=%s", pageSize, url.QueryEscape(next)), pageSize)
		next = page.NextCursor
		return took, err
	})
	if err != nil || len(m.Each) == 0 {
		return err
	}
	b.report.Add(fmt.Sprintf("page of %d by cursor", pageSize), m, "walks of %d pages", length)
	b.report.AtMost("page by cursor, p99", m.Milliseconds(0.99), 20, " ms")
	return nil
}
