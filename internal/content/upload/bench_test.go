package upload

import (
	"context"
	"fmt"
	"testing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// BenchmarkAdd adds files of 4 KiB, one after the other, to uploads of 2,000 files.
func BenchmarkAdd(b *testing.B) {
	for name, url := range map[string]func() string{
		"SQLite":     func() string { return storetest.SQLiteURL(b) },
		"PostgreSQL": func() string { return postgrestest.Start(b) },
	} {
		b.Run(name, func(b *testing.B) {
			st, err := store.Open(b.Context(), url(), nil, owners...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = st.Close() }()
			uploads := &Uploads{DB: st, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
			repositories := &repository.Repositories{DB: st}
			data, id, added := make([]byte, 4<<10), "", 0
			for b.Loop() {
				if added%2000 == 0 {
					if id, err = uploads.Start(b.Context(), demo, by, "main"); err != nil {
						b.Fatal(err)
					}
				}
				added++
				for at := 0; at < len(data); at += 32 {
					copy(data[at:], fmt.Sprintf("%016x%016x", at*7919, added))
				}
				if err := uploads.Add(b.Context(), demo, by, id, fmt.Sprintf("model/cubes/%d.yml", added), data, repositories); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
