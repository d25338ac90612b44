package github

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	gh "github.com/google/go-github/v89/github"
)

// NewRepository is a repository to create.
type NewRepository struct {
	Owner, Name string
	Private     bool
	// Files are the contents of the first files by path.
	Files map[string]string
	// AuthorName and AuthorEmail are those of the commits.
	AuthorName, AuthorEmail string
}

// CreateRepository creates a repository of an organization with files on its default branch, with a commit for
// each. The reason of the error is Exists if there is one with the name, and Forbidden if the installation may not
// create repositories.
func (a *App) CreateRepository(ctx context.Context, installation int64, n NewRepository) (Repository, error) {
	what := "organization " + n.Owner
	if !ValidName(n.Owner) || !ValidName(n.Name) {
		return Repository{}, &Error{Reason: NotFound, Message: what + " cannot have a repository of this name"}
	}
	token, err := a.newToken(ctx, installation, &gh.InstallationTokenOptions{
		Permissions: &gh.InstallationPermissions{Administration: gh.Ptr("write"), Contents: gh.Ptr("write"), Metadata: gh.Ptr("read")},
	})
	if IsReason(err, NotFound) || IsReason(err, Forbidden) {
		return Repository{}, &Error{Forbidden, what + " does not allow the GitHub App to create repositories: the App needs the repository permissions Administration and Contents, read and write", err}
	}
	if err != nil {
		return Repository{}, err
	}
	client, err := a.newClient(func() (string, error) { return token.value, nil })
	if err != nil {
		return Repository{}, err
	}
	created, response, err := client.Repositories.Create(ctx, n.Owner, &gh.Repository{Name: &n.Name, Private: &n.Private})
	switch {
	case err != nil && response != nil && response.StatusCode == http.StatusUnprocessableEntity && nameExists(err):
		return Repository{}, &Error{Exists, "repository " + n.Owner + "/" + n.Name + " exists already", err}
	case err != nil:
		return Repository{}, failure(what, err)
	}
	what = "repository " + n.Owner + "/" + n.Name
	author := &gh.CommitAuthor{Name: &n.AuthorName, Email: &n.AuthorEmail}
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(n.Files))) {
		_, _, err := client.Repositories.CreateFile(ctx, n.Owner, n.Name, path, &gh.RepositoryContentFileOptions{
			Message: gh.Ptr("Add " + path), Content: []byte(n.Files[path]), Author: author, Committer: author,
		})
		if err != nil {
			return Repository{}, failure(what, err)
		}
	}
	return repositoryOf(created), nil
}

// nameExists reports whether GitHub rejects the name of a repository because another one has it.
func nameExists(err error) bool {
	var response *gh.ErrorResponse
	return errors.As(err, &response) && slices.ContainsFunc(response.Errors, func(e gh.Error) bool { return strings.Contains(e.Message, "already exists") })
}
