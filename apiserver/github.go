package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/githubtokens"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// runGitHub returns the GitHub App and the function that returns its tokens for pushes, and renews tokens
// in the background; nil if none is configured.
func runGitHub(k8s cluster.Cluster, c Config, background *serving.Background) (deployments.GitHub, gitmirror.PushCredentials, error) {
	if c.GitHub.AppID == 0 {
		return nil, nil, nil
	}
	app, err := github.New(c.GitHub)
	if err != nil {
		return nil, nil, err
	}
	renewer := &githubtokens.Renewer{
		Secrets: &githubtokens.Secrets{Live: k8s.GetAPIReader(), Writer: client.WithFieldOwner(k8s.GetClient(), edit.Manager), App: app, Now: time.Now},
		Cache:   k8s.GetCache(), Log: c.Log,
	}
	background.Run("GitHub tokens", renewer.Run)
	return app, func(ctx context.Context, d *v1alpha1.Deployment) (map[string][]byte, error) {
		return pushCredentials(ctx, k8s.GetCache(), app, d)
	}, nil
}

// pushCredentials returns a token of the GitHub App that writes to the repository of a deployment; nil
// if its spec names no installation. It is not stored: the one in the Secret, which pods use, only reads.
func pushCredentials(ctx context.Context, cached client.Reader, app *github.App, d *v1alpha1.Deployment) (map[string][]byte, error) {
	target, ok := githubtokens.TargetOf(d)
	_, name, onHost := app.RepositoryOf(target.URL)
	if !ok || !onHost {
		return nil, nil
	}
	account, err := tenant.Of(ctx, cached, d.Namespace)
	if err != nil {
		return nil, fmt.Errorf("find the account of a deployment: %w", err)
	}
	if !githubtokens.Allowed(account, target.Installation) {
		return nil, content.Errorf(content.Forbidden, "account %q may not use installation %d: an administrator has to add it to spec.github.installationIds", account.Name, target.Installation)
	}
	token, err := app.WriteToken(ctx, target.Installation, name)
	var failed *github.Error
	if errors.As(err, &failed) {
		return nil, content.Errorf(content.Forbidden, "the GitHub App cannot push: %s; it needs the permission Contents: read and write, which its owner adds and the installation accepts", failed.Message)
	}
	if err != nil {
		return nil, err
	}
	return map[string][]byte{git.KeyUsername: []byte(githubtokens.Username), git.KeyPassword: []byte(token.Reveal()), git.KeyCACert: app.CA()}, nil
}
