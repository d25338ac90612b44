package backup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/store"
)

// Content copies the content store to an archive, or from it: of a database, or of another process.
type Content interface {
	// Dump calls write for each record of the content.
	Dump(ctx context.Context, write func(store.Record) error) error
	// Check returns an error if Load cannot succeed, as far as that is known without the records.
	Check(ctx context.Context, id string) error
	// Load restores the records that next returns until io.EOF. Before that nothing is written.
	Load(ctx context.Context, h Header, next func() (store.Record, error)) error
}

// Options are what Write copies.
type Options struct {
	// Version of this Quoin.
	Version string
	// Reader reads the cluster; no objects are copied if it is nil.
	Reader client.Reader
	// Namespace of Quoin.
	Namespace string
	// Secrets copies the Secrets that Quoin has created.
	Secrets bool
	// Content is the content store; nil copies none.
	Content Content
}

// Summary counts what an archive has, or what was restored.
type Summary struct {
	Objects, Rows int
	// Existing objects were restored before, or are identical.
	Existing int
	// Skipped describes objects that were not restored, and why.
	Skipped []string
}

// Write writes an archive. Objects are read before the content to which they refer, and the ids that
// accounts have issued once more after it; see docs/decisions/0068-backups-of-objects-and-content.md.
func Write(ctx context.Context, to io.Writer, o Options) (Summary, error) {
	var summary Summary
	w, err := newWriter(to, Header{
		Format: Format, ID: uuid.NewString(), Version: o.Version, Time: time.Now().UTC().Truncate(time.Second), Namespace: o.Namespace,
		Objects: o.Reader != nil, Secrets: o.Reader != nil && o.Secrets, Content: o.Content != nil,
	})
	if err != nil {
		return summary, err
	}
	read := &objects{reader: o.Reader, namespace: o.Namespace, secrets: o.Secrets, write: func(obj *unstructured.Unstructured) error {
		summary.Objects++
		return w.write(line{Object: obj})
	}}
	if o.Reader != nil {
		if err := read.writeAll(ctx); err != nil {
			return summary, err
		}
	}
	if o.Content != nil {
		err := o.Content.Dump(ctx, func(r store.Record) error {
			if r.Row != nil {
				summary.Rows++
			}
			return w.write(line{Content: &r})
		})
		if err != nil {
			return summary, err
		}
	}
	if o.Reader != nil {
		all, err := read.ledgers(ctx)
		if err != nil {
			return summary, err
		}
		for i := range all {
			if err := w.write(line{Ledger: &all[i]}); err != nil {
				return summary, err
			}
		}
	}
	if err := w.close(); err != nil {
		return summary, fmt.Errorf("write the archive: %w", err)
	}
	return summary, nil
}
