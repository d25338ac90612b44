// Package backup writes the objects of Quoin and the content store to one archive, and restores them
// in another cluster, where objects have other UIDs.
//
//	archive.go    the format
//	objects.go    reads the objects of a cluster
//	mapping.go    changes an object for the cluster in which it is restored
//	restore.go    writes objects to a cluster
//	content.go    copies the content store to and from an archive
package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-dev/quoin/internal/store"
)

// Format is the version of the format that this Quoin writes.
const Format = 1

var (
	// ErrNewer is returned for an archive in a format of a newer Quoin.
	ErrNewer = errors.New("the archive is of a newer Quoin")
	// ErrDamaged is returned for an archive that is truncated, changed, or not an archive.
	ErrDamaged = errors.New("the archive is damaged")
)

// Header is the first line of an archive.
type Header struct {
	Format int `json:"format"`
	// ID identifies the archive.
	ID string `json:"id"`
	// Version of the Quoin that wrote it.
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// Namespace of Quoin.
	Namespace string `json:"namespace,omitempty"`
	// Objects, Secrets and Content report what the archive has.
	Objects bool `json:"objects"`
	Secrets bool `json:"secrets"`
	Content bool `json:"content"`
}

// line is a line of an archive: exactly one of its fields is set. The lines are a header, objects,
// content, ledgers, and an end, as JSON, compressed with gzip.
type line struct {
	Header  *Header                    `json:"header,omitempty"`
	Object  *unstructured.Unstructured `json:"object,omitempty"`
	Content *store.Record              `json:"content,omitempty"`
	Ledger  *ledger                    `json:"ledger,omitempty"`
	End     *end                       `json:"end,omitempty"`
}

// ledger has the ids that an account had issued after the content was copied.
type ledger struct {
	Account string `json:"account"`
	IDs     string `json:"ids"`
}

// end is the last line: without it, an archive is truncated.
type end struct {
	Lines int `json:"lines"`
	// SHA256 of the lines before.
	SHA256 string `json:"sha256"`
}

// writer writes an archive.
type writer struct {
	gzip   *gzip.Writer
	sha256 hash.Hash
	lines  int
}

func newWriter(to io.Writer, h Header) (*writer, error) {
	w := &writer{gzip: gzip.NewWriter(to), sha256: sha256.New()}
	return w, w.write(line{Header: &h})
}

func (w *writer) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	text = append(text, '\n')
	w.sha256.Write(text)
	w.lines++
	if _, err := w.gzip.Write(text); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

func (w *writer) close() error {
	if err := w.write(line{End: &end{Lines: w.lines, SHA256: hex.EncodeToString(w.sha256.Sum(nil))}}); err != nil {
		return err
	}
	if err := w.gzip.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// reader reads an archive.
type reader struct {
	header Header
	lines  *bufio.Reader
	sha256 hash.Hash
	count  int
	// ended reports whether the last line was read, and the archive is complete.
	ended bool
}

// newReader reads the header.
func newReader(from io.Reader) (*reader, error) {
	decompressed, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: it does not begin as one: %w", ErrDamaged, err)
	}
	r := &reader{lines: bufio.NewReaderSize(decompressed, 1<<20), sha256: sha256.New()}
	first, err := r.next()
	switch {
	case errors.Is(err, io.EOF) || err == nil && first.Header == nil:
		return nil, fmt.Errorf("%w: it has no header", ErrDamaged)
	case err != nil:
		return nil, err
	case first.Header.Format > Format:
		return nil, fmt.Errorf("%w: its format is %d, Quoin %s has written it, and this one reads formats up to %d",
			ErrNewer, first.Header.Format, first.Header.Version, Format)
	case first.Header.Format < 1 || first.Header.ID == "":
		return nil, fmt.Errorf("%w: its header has format %d and id %q", ErrDamaged, first.Header.Format, first.Header.ID)
	}
	r.header = *first.Header
	return r, nil
}

// next returns the next line, or io.EOF after an archive that is complete.
func (r *reader) next() (line, error) {
	text, err := r.lines.ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return line{}, fmt.Errorf("%w: it ends after line %d: it is truncated", ErrDamaged, r.count)
	case err != nil:
		return line{}, fmt.Errorf("%w: after line %d: %w", ErrDamaged, r.count, err)
	}
	var l line
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&l); err != nil {
		return line{}, fmt.Errorf("%w: line %d: %w", ErrDamaged, r.count+1, err)
	}
	if l.End != nil {
		return line{}, r.end(*l.End)
	}
	r.sha256.Write(text)
	r.count++
	return l, nil
}

// drain reads the lines that are left, if any. Content that was loaded before is not read to its end, and what writes the archive must
// not fail for that.
func (r *reader) drain() error {
	for !r.ended {
		if _, err := r.next(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// end checks the last line, and returns io.EOF if the archive is complete.
func (r *reader) end(e end) error {
	if sum := hex.EncodeToString(r.sha256.Sum(nil)); e.Lines != r.count || e.SHA256 != sum {
		return fmt.Errorf("%w: its lines differ from those that were written", ErrDamaged)
	}
	if _, err := r.lines.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it does not end after its last line", ErrDamaged)
	}
	r.ended = true
	return io.EOF
}
