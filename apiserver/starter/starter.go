// Package starter makes the first commit of deployments that are created over REST.
//
// The Deployment object is created first, because the content of a deployment belongs to its UID. Its
// annotation requests the commit, which everything that opens the repository makes if the production
// branch is missing: a crash after the creation leaves a deployment whose first reader, at the latest
// the controller's, makes it. The commit is derived from the object alone, so concurrent makers make
// the same one.
package starter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// Annotation requests the first commit of a Deployment. Its value is the author: <name> <<e-mail
// address>>.
const Annotation = v1alpha1.Group + "/starter-project"

// Request makes a new Deployment request its first commit, by an author.
func Request(d *v1alpha1.Deployment, name, email string) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[Annotation] = fmt.Sprintf("%s <%s>", name, email)
}

// Ensure makes the first commit of a deployment that requests it, unless its production branch
// exists.
func Ensure(s *repository.Session, d *v1alpha1.Deployment) error {
	requested, ok := d.Annotations[Annotation]
	if !ok || d.Spec.Model.Repository == nil {
		return nil
	}
	branch := d.Spec.Model.Repository.BranchName()
	_, err := s.Branch(branch)
	if err == nil || !is(err, content.NotFound) {
		return err
	}
	branches, err := s.Branches()
	if err != nil || len(branches) > 0 {
		return err // it has been used: the production branch is one that is not pushed yet
	}
	commit, err := addCommit(s, d, requested)
	if err != nil {
		return err
	}
	// The event of the creation covers it: the maker may be the controller's fetch, which has none.
	err = s.Save([]repository.Move{{Branch: branch, To: commit}}, nil, nil)
	if is(err, content.Conflict) {
		if _, found := s.Branch(branch); found == nil {
			return nil // another request has made it
		}
	}
	return err
}

func is(err error, reason content.Reason) bool {
	var rejected *content.Error
	return errors.As(err, &rejected) && rejected.Reason == reason
}

func addCommit(s *repository.Session, d *v1alpha1.Deployment, requested string) (plumbing.Hash, error) {
	root := ""
	if path := strings.Trim(d.Spec.Model.Repository.Path, "/"); path != "" {
		root = path + "/"
	}
	var edits []modeltree.Edit
	for path, text := range Files(d.DisplayName()) {
		blob, err := modeltree.AddBlob(s, []byte(text))
		if err != nil {
			return plumbing.ZeroHash, err
		}
		edits = append(edits, modeltree.Edit{Path: root + path, Blob: blob})
	}
	tree, err := modeltree.Apply(s, plumbing.ZeroHash, edits)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	name, email, _ := strings.Cut(strings.TrimSuffix(requested, ">"), " <")
	return modeltree.AddCommit(s, modeltree.Commit{
		Tree: tree, AuthorName: name, AuthorEmail: email, Message: "Starter project", When: d.CreationTimestamp.UTC(),
	})
}

// Files returns the files of the starter project, by path: a model without cubes, which compiles.
func Files(name string) map[string]string {
	return map[string]string{
		"README.md": "# " + name + "\n\n" +
			"The data model of this deployment: cubes and views are YAML, JavaScript or Python files in `model`.\n",
		"model/cubes/cubes.yml": "# Each file in this folder may define cubes.\ncubes: []\n",
	}
}
