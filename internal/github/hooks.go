package github

import (
	"context"

	gh "github.com/google/go-github/v89/github"
)

// SetHook creates the push hook of a repository with a URL and a secret, or gives an existing one with
// that URL the secret. The reason of the error is Forbidden or NotFound if the App may not manage hooks.
func (a *App) SetHook(ctx context.Context, installation int64, owner, name, hookURL, secret string) error {
	hook := &gh.Hook{
		Active: gh.Ptr(true), Events: []string{"push"},
		Config: &gh.HookConfig{URL: &hookURL, Secret: &secret, ContentType: gh.Ptr("json"), InsecureSSL: gh.Ptr("0")},
	}
	client, existing, err := a.hooks(ctx, installation, owner, name, hookURL)
	switch {
	case err != nil:
		return err
	case len(existing) > 0:
		_, _, err = client.Repositories.EditHook(ctx, owner, name, existing[0], hook)
	default:
		_, _, err = client.Repositories.CreateHook(ctx, owner, name, hook)
	}
	if err != nil {
		return failure("repository "+owner+"/"+name, err)
	}
	return nil
}

// RemoveHook deletes the push hooks of a repository with a URL. Other hooks stay.
func (a *App) RemoveHook(ctx context.Context, installation int64, owner, name, hookURL string) error {
	client, existing, err := a.hooks(ctx, installation, owner, name, hookURL)
	if err != nil {
		return err
	}
	for _, id := range existing {
		if _, err := client.Repositories.DeleteHook(ctx, owner, name, id); err != nil {
			return failure("repository "+owner+"/"+name, err)
		}
	}
	return nil
}

// hooks returns the ids of the hooks of a repository with a URL, and a client that may change them.
func (a *App) hooks(ctx context.Context, installation int64, owner, name, hookURL string) (*gh.Client, []int64, error) {
	token, err := a.newToken(ctx, installation, &gh.InstallationTokenOptions{
		Repositories: []string{name}, Permissions: &gh.InstallationPermissions{RepositoryHooks: gh.Ptr("write"), Metadata: gh.Ptr("read")},
	})
	if err != nil {
		return nil, nil, err
	}
	client, err := a.newClient(func() (string, error) { return token.value, nil })
	if err != nil {
		return nil, nil, err
	}
	all, _, err := client.Repositories.ListHooks(ctx, owner, name, &gh.ListOptions{PerPage: pageSize})
	if err != nil {
		return nil, nil, failure("repository "+owner+"/"+name, err)
	}
	var ids []int64
	for _, h := range all {
		if h.GetConfig().GetURL() == hookURL {
			ids = append(ids, h.GetID())
		}
	}
	return client, ids, nil
}
