package repository

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// benchmark runs on both databases.
func benchmark(b *testing.B, run func(b *testing.B, repos *Repositories)) {
	for name, url := range map[string]func() string{
		"SQLite":     func() string { return storetest.SQLiteURL(b) },
		"PostgreSQL": func() string { return postgrestest.Start(b) },
	} {
		b.Run(name, func(b *testing.B) {
			s, err := store.Open(b.Context(), url(), nil, audit.Owner, Owner)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			run(b, &Repositories{DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }})
		})
	}
}

// saveFiles makes a commit of files of a size in 50 folders, and moves a new branch to it.
func saveFiles(b *testing.B, s *Session, branch string, files, size int) plumbing.Hash {
	b.Helper()
	var edits []modeltree.Edit
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("%s %d %d\n", branch, i, i*i), size)[:size]
		blob, err := modeltree.AddBlob(s, []byte(text))
		if err != nil {
			b.Fatal(err)
		}
		edits = append(edits, modeltree.Edit{Path: fmt.Sprintf("model/d%d/f%d.yml", i%50, i), Blob: blob})
	}
	tree, err := modeltree.Apply(s, zero, edits)
	if err != nil {
		b.Fatal(err)
	}
	commit, err := modeltree.AddCommit(s, modeltree.Commit{Tree: tree, When: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Save([]Move{{branch, zero, commit}}, nil, nil); err != nil {
		b.Fatal(err)
	}
	return commit
}

// BenchmarkSave saves 2,000 new files of 4 KiB.
func BenchmarkSave(b *testing.B) {
	benchmark(b, func(b *testing.B, repos *Repositories) {
		i := 0
		for b.Loop() {
			saveFiles(b, repos.Session(b.Context(), demo), fmt.Sprint("b", i), 2000, 4096)
			i++
		}
	})
}

// BenchmarkFiles lists 10,000 files: the first time in a process, and again.
func BenchmarkFiles(b *testing.B) {
	benchmark(b, func(b *testing.B, repos *Repositories) {
		commit := saveFiles(b, repos.Session(b.Context(), demo), "main", 10_000, 100)
		list := func(b *testing.B, repos *Repositories) {
			files, err := modeltree.Files(repos.Session(b.Context(), demo), commit, "")
			if err != nil || len(files) != 10_000 {
				b.Fatal(len(files), err)
			}
		}
		b.Run("cold", func(b *testing.B) {
			for b.Loop() {
				list(b, &Repositories{DB: repos.DB})
			}
		})
		b.Run("warm", func(b *testing.B) {
			for b.Loop() {
				list(b, repos)
			}
		})
	})
}
