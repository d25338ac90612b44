package gateway

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// secretName is the name of the Secret with the generated certificate.
const secretName = "quoin-gateway-tls"

// certificatesFor returns the certificate from files, or one that is generated for the hosts of
// all deployments.
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
					c.Log.Error("Cannot list the hosts of the serving certificate", "error", err)
				}
			}
			return append(serving.OwnNames(c.Service, c.Namespace), certificateNames(accounts.Items, deployments.Items)...)
		},
	})
}

// certificateNames returns the DNS names of all data APIs and SQL interfaces: two wildcards for
// each data domain, because the number of names in a certificate is limited, and the custom
// domains.
func certificateNames(accounts []v1alpha1.Account, deployments []v1alpha1.Deployment) []string {
	var names []string
	for i := range accounts {
		names = append(names, "*."+engine.DataDomain(&accounts[i]), "*."+engine.SQLDomain(&accounts[i]))
	}
	slices.Sort(names)
	var custom []string
	for i := range deployments {
		if host := tenant.HeldDomain(&deployments[i]); host != "" {
			custom = append(custom, host)
		}
	}
	slices.Sort(custom)
	return slices.Compact(append(slices.Compact(names), slices.Compact(custom)...))
}

// followHosts renews the certificate when hosts are added.
func followHosts(ctx context.Context, k8s cluster.Cluster, certificates *serving.Certificates) error {
	return certificates.Follow(ctx, k8s.GetCache(), namesOf, &v1alpha1.Account{}, &v1alpha1.Deployment{})
}

// namesOf returns the names that an object adds to the certificate.
func namesOf(o any) []string {
	switch o := o.(type) {
	case *v1alpha1.Account:
		return []string{engine.DataDomain(o)}
	case *v1alpha1.Deployment:
		return []string{tenant.HeldDomain(o)}
	}
	return nil
}
