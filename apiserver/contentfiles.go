package apiserver

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// maxContentFile is the maximum size of a file with the definition of a workbook, in bytes.
const maxContentFile = 1 << 20

// contentFiles returns a function that reads files of commits in the repositories of deployments.
func contentFiles(k8s cluster.Cluster, kept *repository.Repositories, mirrors *gitmirror.Mirrors) func(ctx context.Context, of content.Scope, commit, name string) ([]byte, error) {
	return func(ctx context.Context, of content.Scope, commit, name string) ([]byte, error) {
		session, _, err := openModel(ctx, k8s.GetCache(), kept, mirrors, of)
		if err != nil {
			return nil, err
		}
		folder, base := path.Split(name)
		files, err := modeltree.List(session, plumbing.NewHash(commit), folder)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, content.Errorf(content.Conflict, "fromPath: the repository does not have the commit %s", commit)
		}
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(files, func(f modeltree.File) bool { return f.Path == base })
		if at < 0 {
			return nil, content.Errorf(content.Invalid, "fromPath: commit %s has no file %q", commit, name)
		}
		size, err := session.EncodedObjectSize(files[at].Hash)
		if err != nil {
			return nil, err
		}
		if size > maxContentFile {
			return nil, content.Errorf(content.Invalid, "fromPath: %q has %d bytes; allowed: %d", name, size, maxContentFile)
		}
		return modeltree.Content(session, files[at].Hash)
	}
}
