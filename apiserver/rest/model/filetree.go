package model

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// The types of nodes.
const (
	typeFile      = "file"
	typeDirectory = "directory"
)

// SourceNode is a file of the data model, or a folder with everything in it.
type SourceNode struct {
	Path     string       `json:"path" doc:"From the root of the data model, with a slash at the beginning."`
	Name     string       `json:"name"`
	Type     string       `json:"type" enum:"file,directory"`
	Content  *string      `json:"content,omitempty" nullable:"true" doc:"Of a file, with withContent; absent if it is not UTF-8 text."`
	Children []SourceNode `json:"children,omitempty" doc:"Of a directory."`

	// blob of a file.
	blob modeltree.File
}

// nodesOf returns the tree of files, which are sorted by path: the nodes whose paths begin with a
// prefix, by path.
func nodesOf(files []modeltree.File, prefix string) []SourceNode {
	nodes := []SourceNode{}
	for i := 0; i < len(files); {
		name, _, inFolder := strings.Cut(files[i].Path[len(prefix):], "/")
		node := SourceNode{Path: "/" + prefix + name, Name: name, Type: typeFile, blob: files[i]}
		next := i + 1
		if inFolder {
			folder := prefix + name + "/"
			for next < len(files) && strings.HasPrefix(files[next].Path, folder) {
				next++
			}
			node.Type, node.Children = typeDirectory, nodesOf(files[i:next], folder)
		}
		nodes = append(nodes, node)
		i = next
	}
	slices.SortFunc(nodes, func(x, y SourceNode) int { return cmp.Compare(x.Path, y.Path) })
	return nodes
}

const (
	// maxListedContent is the maximum size of the files that a list shows with their content.
	maxListedContent = 16 << 20
	// contentsPerRead is the number of contents that are read at once.
	contentsPerRead = 256
)

// addContents adds the content of the files of nodes.
func addContents(session *repository.Session, nodes []SourceNode) error {
	var files []*SourceNode
	var blobs []modeltree.File
	visit(nodes, func(n *SourceNode) {
		if upload.IsContent(n.blob) {
			files, blobs = append(files, n), append(blobs, n.blob)
		}
	})
	if err := modeltree.AddSizes(session, blobs); err != nil {
		return err
	}
	var size int64
	for _, f := range blobs {
		size += f.Size
	}
	if size > maxListedContent {
		return rest.BadRequest("withContent: the files have %d bytes; allowed: %d: request fewer with first and after, or without their content", size, maxListedContent)
	}
	for part := range slices.Chunk(files, contentsPerRead) {
		hashes := make([]plumbing.Hash, len(part))
		for i, n := range part {
			hashes[i] = n.blob.Hash
		}
		if err := session.Prefetch(hashes); err != nil {
			return err
		}
		for _, n := range part {
			data, err := modeltree.Content(session, n.blob.Hash)
			if err != nil {
				return err
			}
			if text := string(data); utf8.ValidString(text) {
				n.Content = &text
			}
		}
	}
	return nil
}

// visit calls f with each file.
func visit(nodes []SourceNode, f func(n *SourceNode)) {
	for i := range nodes {
		if nodes[i].Type == typeFile {
			f(&nodes[i])
		}
		visit(nodes[i].Children, f)
	}
}
