// Package modeltree reads, changes and merges the trees of data models in Git repositories. It works
// on any object storer of go-git; it knows no database and no HTTP.
//
//	modeltree.go   limits, files, blobs and commits
//	paths.go       the rules of paths
//	objects.go     the format of objects
//	files.go       the list of the files of a commit
//	apply.go       changes of a tree
//	history.go     ancestors and merge bases
//	merge.go       three-way merge of trees
//	lines.go       three-way merge of lines
//	match.go       the lines that two texts have in common
//
// Rejected input is a *content.Error. Other errors are those of the storer.
package modeltree

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/quoin-dev/quoin/internal/content"
)

// Limits of trees. quoin model-fetch has the same limits of files and depth.
const (
	// MaxFiles is the maximum number of files of a commit, and of its folders.
	MaxFiles = 10_000
	// MaxBytes is the maximum size of all files of a commit.
	MaxBytes = 256 << 20
	// MaxDepth is the maximum number of names in a path.
	MaxDepth = 100
	// MaxPath is the maximum number of bytes of a path.
	MaxPath = 1024
	// MaxName is the maximum number of bytes of each name in a path.
	MaxName = 255
	// MaxObjectBytes is the maximum size of an object, such as the content of a file.
	MaxObjectBytes = 16 << 20
)

// File is a file of a commit. Its mode is that of a regular or executable file, of a symbolic link,
// or of a submodule, which has no size.
type File struct {
	Path string
	Hash plumbing.Hash
	Size int64
	Mode filemode.FileMode
}

// Content returns the content of a blob.
func Content(s storer.EncodedObjectStorer, blob plumbing.Hash) ([]byte, error) {
	o, err := s.EncodedObject(plumbing.BlobObject, blob)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", blob, err)
	}
	return contentOf(o)
}

// contentOf returns the content of an object.
func contentOf(o plumbing.EncodedObject) (all []byte, err error) {
	if o.Size() > MaxObjectBytes {
		return nil, fmt.Errorf("object %s has %d bytes; allowed: %d", o.Hash(), o.Size(), MaxObjectBytes)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", o.Hash(), err)
	}
	defer func() { _ = r.Close() }()
	all = make([]byte, o.Size())
	if _, err := io.ReadFull(r, all); err != nil {
		return nil, fmt.Errorf("read object %s: %w", o.Hash(), err)
	}
	return all, nil
}

// AddBlob adds the content of a file.
func AddBlob(s storer.EncodedObjectStorer, data []byte) (plumbing.Hash, error) {
	if len(data) > MaxObjectBytes {
		return plumbing.ZeroHash, content.Errorf(content.Invalid, "the file has %d bytes; allowed: %d", len(data), MaxObjectBytes)
	}
	return add(s, plumbing.BlobObject, data)
}

// add adds an object.
func add(s storer.EncodedObjectStorer, t plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	o := s.NewEncodedObject()
	o.SetType(t)
	o.SetSize(int64(len(data)))
	w, err := o.Writer()
	if err == nil {
		_, err = io.Copy(w, bytes.NewReader(data))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write a %s: %w", t, err)
	}
	return s.SetEncodedObject(o)
}

// Commit is a commit to add.
type Commit struct {
	Tree    plumbing.Hash
	Parents []plumbing.Hash
	// AuthorName and AuthorEmail are those of the author and of the committer.
	AuthorName, AuthorEmail string
	Message                 string
	When                    time.Time
}

// AddCommit adds a commit. Characters that the format does not allow in names are left out.
func AddCommit(s storer.EncodedObjectStorer, c Commit) (plumbing.Hash, error) {
	by := object.Signature{Name: identity(c.AuthorName), Email: identity(c.AuthorEmail), When: c.When.UTC()}
	if by.Name == "" {
		by.Name = "unknown"
	}
	message := strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(c.Message, "\uFFFD"), "\x00", "")) + "\n"
	commit := &object.Commit{Author: by, Committer: by, Message: message, TreeHash: c.Tree, ParentHashes: c.Parents}
	o := &plumbing.MemoryObject{}
	if err := commit.Encode(o); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode a commit: %w", err)
	}
	data, err := contentOf(o)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return add(s, plumbing.CommitObject, data)
}

// identity returns a name or e-mail address without the characters that end it in a commit.
func identity(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
}

// TreeOf returns the tree of a commit.
func TreeOf(s storer.EncodedObjectStorer, commit plumbing.Hash) (plumbing.Hash, error) {
	o, err := s.EncodedObject(plumbing.CommitObject, commit)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read commit %s: %w", commit, err)
	}
	data, err := contentOf(o)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	references, err := References(plumbing.CommitObject, data)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("commit %s: %w", commit, err)
	}
	return references[0].Hash, nil
}
