package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
)

// secretName is the name of the Secret with the certificate that is made.
const secretName = "quoin-gateway-tls"

// certificatesFor are those of the files, or made for the hosts of all deployments.
func certificatesFor(ctx context.Context, k8s cluster.Cluster, c Config) (*serving.Certificates, error) {
	if c.CertFile != "" {
		return serving.CertificatesFromFiles(ctx, c.CertFile, c.KeyFile, c.Log)
	}
	direct, err := client.New(k8s.GetConfig(), client.Options{Scheme: k8s.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return serving.CertificatesFromSecret(ctx, serving.SecretOptions{
		Client: direct, Namespace: c.Namespace, Name: secretName, Log: c.Log,
		Names: func() []string {
			accounts, deployments := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
			for _, list := range []client.ObjectList{accounts, deployments} {
				if err := k8s.GetCache().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
					c.Log.Error("Cannot read the hosts that the certificate should be for", "error", err)
				}
			}
			service := c.Service + "." + c.Namespace
			own := []string{service + ".svc", service + ".svc.cluster.local", "localhost", "127.0.0.1"}
			return append(own, certificateNames(accounts.Items, deployments.Items)...)
		},
	})
}

// certificateNames are those of all data APIs and SQL interfaces: a certificate has room for
// few, so all below a data domain are two.
func certificateNames(accounts []v1alpha1.Account, deployments []v1alpha1.Deployment) []string {
	var names []string
	for i := range accounts {
		names = append(names, "*."+engine.DataDomain(&accounts[i]), "*."+engine.SQLDomain(&accounts[i]))
	}
	slices.Sort(names)
	var custom []string
	for i := range deployments {
		if host := engine.CustomHost(&deployments[i]); host != "" {
			custom = append(custom, host)
		}
	}
	slices.Sort(custom)
	return slices.Compact(append(slices.Compact(names), slices.Compact(custom)...))
}

// followHosts asks for a new certificate soon after there are new hosts.
func followHosts(ctx context.Context, k8s cluster.Cluster, certificates *serving.Certificates) error {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, kind := range []client.Object{&v1alpha1.Account{}, &v1alpha1.Deployment{}} {
		informer, err := k8s.GetCache().GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() },
			UpdateFunc: func(before, after any) {
				if namesOf(before) != namesOf(after) {
					tell()
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		// Refresh logs what goes wrong, and Run tries again.
		_ = certificates.Refresh(ctx)
		select { // a handful of objects that are applied at once are one certificate
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// namesOf is what an object adds to the names of the certificate.
func namesOf(o any) string {
	switch o := o.(type) {
	case *v1alpha1.Account:
		return engine.DataDomain(o)
	case *v1alpha1.Deployment:
		return engine.CustomHost(o)
	}
	return ""
}
