package agentfiles

import (
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// contentsPerRead is the number of contents that are read at once.
const contentsPerRead = 256

// at returns the project of a commit. The error is plumbing.ErrObjectNotFound if the repository does not have the commit.
func (f *Files) at(d *v1alpha1.Deployment, s content.Scope, session *repository.Session, commit plumbing.Hash) (*Read, error) {
	folder, err := folderOf(d)
	if err != nil {
		return nil, err
	}
	k := key{deployment: s.Deployment.UID, commit: commit, root: rootOf(d), folder: folder}
	if p := f.cache.get(k); p != nil {
		return &Read{p, commit.String()}, nil
	}
	files, size, err := filesOf(session, commit, path.Join(k.root, folder), folder)
	if err != nil {
		return nil, err
	}
	p := project.Parse(folder, files)
	f.cache.put(k, p, size)
	return &Read{p, commit.String()}, nil
}

// filesOf returns the files of a commit that configure agents, and the size of their contents. Paths begin with the folder. Contents
// that exceed the limits of projects are not read.
func filesOf(session *repository.Session, commit plumbing.Hash, root, folder string) (files []project.File, size int64, err error) {
	all, err := modeltree.List(session, commit, root)
	if err != nil {
		return nil, 0, err
	}
	all = slices.DeleteFunc(all, func(f modeltree.File) bool {
		return f.Mode != filemode.Regular && f.Mode != filemode.Executable || !project.IsRead(f.Path)
	})
	// One more than is allowed, so that the excess is reported.
	all = all[:min(len(all), project.MaxFiles+1)]
	if err := modeltree.AddSizes(session, all); err != nil {
		return nil, 0, err
	}
	var read []int
	for i, f := range all {
		files = append(files, project.File{Path: folder + "/" + f.Path, Size: f.Size})
		if f.Size <= project.MaxFileBytes && size+f.Size <= project.MaxBytes {
			read, size = append(read, i), size+f.Size
		}
	}
	for part := range slices.Chunk(read, contentsPerRead) {
		hashes := make([]plumbing.Hash, len(part))
		for i, at := range part {
			hashes[i] = all[at].Hash
		}
		if err := session.Prefetch(hashes); err != nil {
			return nil, 0, err
		}
		for i, at := range part {
			if files[at].Text, err = modeltree.Content(session, hashes[i]); err != nil {
				return nil, 0, err
			}
		}
	}
	return files, size, nil
}
