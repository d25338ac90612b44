package main

import (
	"context"
	"crypto/rand"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const (
	host      = "bench.example.com"
	namespace = "bench"
)

// world is a kube-apiserver, the processes of Quoin, and one account.
type world struct {
	server *controlplane.APIServer
	quoin  *controlplane.Quoin
	// rfc and entra are Quoin's SCIM service, with API keys of these client profiles.
	rfc, entra *service
	// direct is the account's namespace on kube-apiserver, and root the server itself.
	direct, root *service
}

func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (w *world, err error) {
	w = &world{
		server: server, root: &service{client: server.HTTP, base: server.URL}, direct: &service{client: server.HTTP, base: server.Namespaced(namespace)},
		rfc: &service{host: host}, entra: &service{host: host},
	}
	if err := w.createObjects(ctx); err != nil {
		return nil, err
	}
	measure.Progress("starting quoin")
	if o.controller {
		if _, err := server.Start(ctx, "controller", o.quoin, "controller", "--kubeconfig", server.Kubeconfig, "--quoin-image=quoin:bench",
			"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--log-level=warn"); err != nil {
			return nil, err
		}
	}
	w.quoin, err = server.StartQuoin(ctx, o.quoin, controlplane.Unlimited, func(q *controlplane.Quoin) error {
		for _, s := range []*service{w.rfc, w.entra} {
			s.client, s.base = q.HTTP, q.URL+"/api/scim/v2"
		}
		_, _, err := w.rfc.list(ctx, "/Users?count=1", 0)
		return err
	})
	return w, err
}

// createObjects creates the account and its keys, as the controllers would.
func (w *world) createObjects(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
	}
	for _, key := range []struct {
		service *service
		profile v1alpha1.ScimProfile
	}{{w.rfc, "RFC"}, {w.entra, "EntraID"}} {
		token, err := apikey.New(rand.Reader)
		if err != nil {
			return err
		}
		hash := token.Hash()
		key.service.token = token.Reveal()
		objects = append(objects, &v1alpha1.ApiKey{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(string(key.profile))},
			Spec:       v1alpha1.ApiKeySpec{ScimProfile: key.profile, Permissions: []v1alpha1.Permission{v1alpha1.PermissionScimManage}, Token: &hash},
		})
	}
	return w.server.CreateAll(ctx, objects...)
}
