package gateway

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// certificatesFor returns the certificate from files, or certificates that are generated for the
// hosts of all deployments.
func certificatesFor(ctx context.Context, k8s cluster.Cluster, c Config) (*certificates.Certificates, error) {
	if c.CertFile != "" {
		return certificates.FromFiles(ctx, c.CertFile, c.KeyFile, c.Log)
	}
	direct, err := client.New(k8s.GetConfig(), client.Options{Scheme: k8s.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return certificates.FromSecret(ctx, certificates.SecretOptions{
		Client: direct, Namespace: c.Namespace, Name: certificates.GatewaySecretName, Log: c.Log,
		Names: func() []string { return certificates.OwnNames(c.Service, c.Namespace) },
		Hosts: func() ([]string, error) {
			accounts, deployments := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
			for _, list := range []client.ObjectList{accounts, deployments} {
				if err := k8s.GetCache().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
					return nil, err
				}
			}
			return certificateNames(accounts.Items, deployments.Items), nil
		},
	})
}

// certificateNames returns the DNS names of all data APIs and SQL interfaces: two wildcards for
// each data domain, which cover the hosts of all its deployments, and the custom domains.
func certificateNames(accounts []v1alpha1.Account, deployments []v1alpha1.Deployment) []string {
	var names []string
	for i := range accounts {
		names = append(names, "*."+engine.DataDomain(&accounts[i]), "*."+engine.SQLDomain(&accounts[i]))
	}
	for i := range deployments {
		if host := tenant.HeldDomain(&deployments[i]); host != "" {
			names = append(names, host)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// followHosts updates the certificates when hosts are added.
func followHosts(ctx context.Context, k8s cluster.Cluster, certificates *certificates.Certificates) error {
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
