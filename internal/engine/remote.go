package engine

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Intervals at which remotes are polled by default. After a change of a repository that Quoin keeps,
// quoin apiserver triggers a poll.
const (
	gitInterval        = time.Minute
	repositoryInterval = 5 * time.Minute
)

// Remote is the Git repository with the data model of a deployment: one on a Git host, or the one that
// Quoin keeps for it.
type Remote struct {
	// Field is the path of the field in the spec.
	Field string
	// URL of the repository, without credentials. That of a kept repository without host is not
	// readable: quoin controller has no --repository-url.
	URL string
	// Branch that production serves; empty for the default branch.
	Branch string
	// Path of the directory with the model; empty for the root.
	Path string
	// Secret is the name of the Secret with the credentials; empty for none.
	Secret string
	// Interval at which the branches are polled.
	Interval time.Duration
	// Kept is true if Quoin keeps the repository.
	Kept bool

	name string
}

// RemoteOf returns the Git repository with the data model of a deployment, nil if the model is not in
// Git. repositoryURL is the URL of quoin apiserver, for the repositories that Quoin keeps.
func RemoteOf(d *v1alpha1.Deployment, repositoryURL string) *Remote {
	if source := d.Spec.Model.Repository; source != nil {
		return &Remote{
			Field: "spec.model.repository", URL: repositoryURL + RepositoryPath(d.Namespace, d.Name),
			Branch: source.BranchName(), Path: source.Path, Secret: RepositorySecretName(d.Name),
			Interval: repositoryInterval, Kept: true, name: "the repository of deployment " + fmt.Sprintf("%q", d.Name),
		}
	}
	source := d.Spec.Model.Git
	if source == nil {
		return nil
	}
	r := &Remote{Field: "spec.model.git", URL: source.URL, Branch: source.Branch, Path: source.Path, Interval: gitInterval, name: source.URL}
	if source.SecretRef != nil {
		r.Secret = source.SecretRef.Name
	}
	if source.Interval != nil {
		r.Interval = source.Interval.Duration
	}
	return r
}

// SourceOf returns what objects record of the repository of their commit: the URL of the repository with the data model of
// a deployment, or the path of one that Quoin keeps; empty if the model is not in Git.
func SourceOf(d *v1alpha1.Deployment) string {
	if remote := RemoteOf(d, ""); remote != nil {
		return remote.URL
	}
	return ""
}

// IsOfSource reports whether the commit of a Branch or an Environment is of the repository with the data model of a
// deployment, and not of the one from which the model has moved, whose commits the repository need not have. An object
// without a record, as an earlier release has written it, counts as such, and each does if the model is not in Git.
func IsOfSource(o metav1.Object, d *v1alpha1.Deployment) bool {
	recorded, current := o.GetAnnotations()[v1alpha1.AnnotationSource], SourceOf(d)
	return recorded == "" || current == "" || recorded == current
}

// String returns the name of the repository for messages.
func (r *Remote) String() string { return r.name }

// Readable reports whether the URL is complete.
func (r *Remote) Readable() bool { return !strings.HasPrefix(r.URL, "/") }

// RepositoryPath returns the path of the repository of a deployment on quoin apiserver's own address.
func RepositoryPath(namespace, deployment string) string {
	return "/repositories/" + namespace + "/" + deployment + ".git"
}

// RepositorySecretName returns the name of the Secret with the credentials of the repository of a
// deployment: username and password, which quoin controller creates, and ca.crt, which quoin apiserver
// keeps up to date.
func RepositorySecretName(deployment string) string { return deployment + "-repository" }
