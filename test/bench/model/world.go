package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
)

const (
	host      = "bench.example.com"
	namespace = "bench"
)

// world is a kube-apiserver with an account, a Git server to compare with, and the models.
type world struct {
	options
	server *controlplane.APIServer
	token  string
	peer   *peer
	// uploaded is the model that is uploaded and pushed, and listed the one that is listed, as working trees of Git.
	uploaded, listedModel *project
	// deployments is the number of deployments that exist.
	deployments int
}

func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (*world, error) {
	w := &world{options: o, server: server}
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	w.token = token.Reveal()
	if err := server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: ptr.To(token.Hash())}},
	); err != nil {
		return nil, err
	}
	if w.uploaded, err = newProject(ctx, filepath.Join(server.Dir, "uploaded"), o.files, fileBytes); err != nil {
		return nil, err
	}
	if w.listedModel, err = newProject(ctx, filepath.Join(server.Dir, "listed"), o.listed, 1<<10); err != nil {
		return nil, err
	}
	w.peer, err = newPeer(ctx, filepath.Join(server.Dir, "peer"))
	return w, err
}

// start starts a `quoin apiserver` with a database.
func (w *world) start(ctx context.Context, database string) (*controlplane.Quoin, error) {
	return w.server.StartQuoin(ctx, w.program, append([]string{"--database-url", database}, controlplane.Unlimited...), func(q *controlplane.Quoin) error {
		c := &client{http: q.HTTP, base: q.URL, authorization: "Bearer " + w.token}
		_, _, err := c.get(ctx, "/api/v1/deployments?limit=1")
		return err
	})
}

// newDeployment creates a deployment without a model, with the status that the controllers would write, and returns its
// number.
func (w *world) newDeployment(ctx context.Context) (string, error) {
	w.deployments++
	id := fmt.Sprint(w.deployments)
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d-" + id, Labels: map[string]string{v1alpha1.LabelID: id}},
		Spec: v1alpha1.DeploymentSpec{
			DisplayName: "Deployment " + id, ReleaseChannel: "latest",
			Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}},
		},
	}
	if err := w.server.Create(ctx, d); err != nil {
		return "", err
	}
	d.Status.ID = id
	return id, w.server.Status().Update(ctx, d)
}
