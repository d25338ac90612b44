package apiserver

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/contentobjects"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/serving"
)

// maxContentFile is the maximum size of a file with the definition of a workbook, in bytes.
const maxContentFile = 1 << 20

// runContentObjects reconciles Workbooks and Folders in the background.
func runContentObjects(k8s cluster.Cluster, clientset kubernetes.Interface, stored storedGroups, c Config, background *serving.Background) {
	background.Run("content objects", func(ctx context.Context) error {
		return contentobjects.Run(ctx, contentobjects.Options{
			Cluster: k8s, Client: clientset, Namespace: c.Namespace, WatchNamespaces: c.WatchNamespaces,
			Database: stored.content.Database, Record: recordWithoutRequest(k8s.GetCache()),
			ReadFile: contentFiles(k8s, stored.repositories, stored.model.Mirrors), Files: stored.agents.Files, Log: c.Log,
		})
	})
}

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

// useAgents sets the options of the routes about agents. Without a database their files cannot be read.
func (g *storedGroups) useAgents(k8s cluster.Cluster) {
	g.agents.Cached = k8s.GetCache()
	g.agents.Files = agentfiles.New(agentfiles.Options{Cached: k8s.GetCache(), Repositories: g.repositories, Mirrors: g.model.Mirrors})
}
