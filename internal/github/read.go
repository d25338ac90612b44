package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	gh "github.com/google/go-github/v89/github"
)

// Installation is an installation of the App on an organization or a user.
type Installation struct {
	ID, AccountID              int64
	Login, AvatarURL, Settings string
	Suspended                  bool
	// IsOrganization reports whether the App is installed on an organization.
	IsOrganization bool
}

// Repository is a repository of an installation.
type Repository struct {
	ID                                  int64
	Owner, Name, HTMLURL, DefaultBranch string
}

// Installation returns an installation by its id.
func (a *App) Installation(ctx context.Context, id int64) (Installation, error) {
	found, _, err := a.client.Apps.GetInstallation(ctx, id)
	what := fmt.Sprintf("installation %d", id)
	if err != nil {
		return Installation{}, failure(what, err)
	}
	if !ValidName(found.GetAccount().GetLogin()) {
		return Installation{}, &Error{Reason: Unavailable, Message: "GitHub returned no owner of " + what}
	}
	return Installation{
		ID: found.GetID(), AccountID: found.GetAccount().GetID(), Login: found.GetAccount().GetLogin(),
		AvatarURL: found.GetAccount().GetAvatarURL(), Settings: found.GetHTMLURL(), Suspended: !found.GetSuspendedAt().IsZero(),
		IsOrganization: found.GetAccount().GetType() == "Organization",
	}, nil
}

// Repositories returns at most count repositories of an installation from an index on, and whether
// there are more.
func (a *App) Repositories(ctx context.Context, installation int64, from, count int) ([]Repository, bool, error) {
	client, err := a.as(ctx, installation)
	if err != nil {
		return nil, false, err
	}
	return slice(from, count, func(o gh.ListOptions) ([]Repository, error) {
		list, _, err := client.Apps.ListRepos(ctx, &o)
		if err != nil {
			return nil, failure(fmt.Sprintf("installation %d", installation), err)
		}
		found := make([]Repository, len(list.Repositories))
		for i, r := range list.Repositories {
			found[i] = repositoryOf(r)
		}
		return found, nil
	})
}

// Repository returns a repository to which an installation has access.
func (a *App) Repository(ctx context.Context, installation int64, owner, name string) (Repository, error) {
	what := "repository " + owner + "/" + name
	if !ValidName(owner) || !ValidName(name) {
		return Repository{}, &Error{Reason: NotFound, Message: what + " does not exist"}
	}
	client, err := a.as(ctx, installation)
	if err != nil {
		return Repository{}, err
	}
	found, _, err := client.Repositories.Get(ctx, owner, name)
	if err != nil {
		return Repository{}, failure(what, err)
	}
	return repositoryOf(found), nil
}

func repositoryOf(r *gh.Repository) Repository {
	return Repository{ID: r.GetID(), Owner: r.GetOwner().GetLogin(), Name: r.GetName(), HTMLURL: r.GetHTMLURL(), DefaultBranch: r.GetDefaultBranch()}
}

// Branches returns at most count names of branches of a repository from an index on, and whether there
// are more.
func (a *App) Branches(ctx context.Context, installation int64, owner, name string, from, count int) ([]string, bool, error) {
	client, err := a.as(ctx, installation)
	if err != nil {
		return nil, false, err
	}
	return slice(from, count, func(o gh.ListOptions) ([]string, error) {
		list, _, err := client.Repositories.ListBranches(ctx, owner, name, &gh.BranchListOptions{ListOptions: o})
		if err != nil {
			return nil, failure("repository "+owner+"/"+name, err)
		}
		found := make([]string, len(list))
		for i, b := range list {
			found[i] = b.GetName()
		}
		return found, nil
	})
}

// HasBranch reports whether a repository has a branch. An empty one has none: GitHub answers with a conflict.
func (a *App) HasBranch(ctx context.Context, installation int64, owner, name, branch string) (bool, error) {
	if slices.ContainsFunc(strings.Split(branch, "/"), func(s string) bool { return s == "" || s[0] == '.' }) {
		return false, nil // no name of a branch, and the library would resolve it as a path
	}
	client, err := a.as(ctx, installation)
	if err != nil {
		return false, err
	}
	_, response, err := client.Git.GetRef(ctx, owner, name, "heads/"+branch)
	switch {
	case err == nil:
		return true, nil
	case response != nil && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusConflict):
		return false, nil
	}
	return false, failure("repository "+owner+"/"+name, err)
}

// pageSize is the largest page of GitHub.
const pageSize = 100

// slice reads the pages of a list that have the items from an index on.
func slice[T any](from, count int, page func(gh.ListOptions) ([]T, error)) ([]T, bool, error) {
	var found []T
	skip := from % pageSize
	for number := from/pageSize + 1; ; number++ {
		items, err := page(gh.ListOptions{Page: number, PerPage: pageSize})
		if err != nil {
			return nil, false, err
		}
		found = append(found, items[min(skip, len(items)):]...)
		skip = 0
		switch {
		case len(found) > count:
			return found[:count], true, nil
		case len(items) < pageSize:
			return found, false, nil
		}
	}
}
