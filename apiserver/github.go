package apiserver

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/githubtokens"
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/serving"
)

// runGitHub returns the GitHub App and renews tokens in the background; nil if none is configured.
func runGitHub(k8s cluster.Cluster, c Config, background *serving.Background) (deployments.GitHub, error) {
	if c.GitHub.AppID == 0 {
		return nil, nil
	}
	app, err := github.New(c.GitHub)
	if err != nil {
		return nil, err
	}
	renewer := &githubtokens.Renewer{
		Secrets: &githubtokens.Secrets{Live: k8s.GetAPIReader(), Writer: client.WithFieldOwner(k8s.GetClient(), edit.Manager), App: app, Now: time.Now},
		Cache:   k8s.GetCache(), Log: c.Log,
	}
	background.Run("GitHub tokens", renewer.Run)
	return app, nil
}
