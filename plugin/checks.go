package plugin

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/plugin/check"
)

// dnsTimeout limits the resolution of a host.
const dnsTimeout = 3 * time.Second

func checkCommand(s *session) *cobra.Command {
	o, dns := &output{}, true
	c := &cobra.Command{
		Use:     "check",
		GroupID: groupRead,
		Short:   "Check the installation: versions, CRDs, roles, DNS, certificates, storage",
		Long: `Checks what an installation needs, and prints what to do about what is missing. A check whose
objects the caller may not read is Unknown. The exit code is 3 if a check failed.`,
		Example: `  kubectl quoin check
  kubectl quoin check --dns=false -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c)
	c.Flags().BoolVar(&dns, "dns", true, "Resolve the hosts of the accounts on this machine.")
	c.RunE = run(func(ctx context.Context, _ []string) error {
		results, err := s.checks(ctx, dns)
		if err != nil {
			return err
		}
		err = o.print(s.Stdout, results, func(w io.Writer) error {
			rows := make([][]string, 0, len(results))
			for _, r := range results {
				rows = append(rows, []string{r.Check, string(r.Status), r.Message, r.Next})
			}
			return o.table(w, []string{"Check", "Status", "Message", "Next"}, rows)
		})
		if err == nil && check.Failures(results) {
			err = errNotReady
		}
		return err
	})
	return c
}

// checks reads what the checks need, as far as the caller may.
func (s *session) checks(ctx context.Context, dns bool) ([]check.Result, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	version, err := s.kubernetesVersion(ctx)
	if err != nil {
		return nil, err
	}
	results := []check.Result{check.Kubernetes(version)}
	crds, processes, classes := &apiextensionsv1.CustomResourceDefinitionList{}, &appsv1.DeploymentList{}, &storagev1.StorageClassList{}
	for _, step := range []struct {
		check, resource string
		read            func() error
		judge           func() []check.Result
	}{
		{
			"CRDs", "customresourcedefinitions",
			func() error { return c.List(ctx, crds) },
			func() []check.Result { return []check.Result{check.Schemas(crds.Items)} },
		}, {
			"Processes", "deployments in " + s.flags.systemNamespace,
			func() error { return c.List(ctx, processes, quoinProcesses(s.flags.systemNamespace)) },
			func() []check.Result { return check.Processes(processes.Items, s.flags.systemNamespace, s.Version) },
		}, {
			"Storage class", "storageclasses",
			func() error { return c.List(ctx, classes) },
			func() []check.Result { return []check.Result{check.StorageClass(classes.Items)} },
		},
	} {
		err := step.read()
		switch {
		case isForbidden(err):
			results = append(results, check.Unreadable(step.check, step.resource))
		case err != nil:
			return nil, err
		default:
			results = append(results, step.judge()...)
		}
	}
	more, err := s.checkAPI(ctx, c, processes.Items)
	if err != nil {
		return nil, err
	}
	results = append(results, more...)
	more, err = s.checkAccounts(ctx, c, dns)
	return append(results, more...), err
}

// checkAPI judges the aggregated API and the certificates of the processes.
func (s *session) checkAPI(ctx context.Context, c client.Reader, processes []appsv1.Deployment) ([]check.Result, error) {
	var results []check.Result
	service, err := apiService(ctx, c)
	switch {
	case isForbidden(err):
		results = append(results, check.Unreadable("Aggregated API", "apiservices"))
	case err != nil:
		return nil, err
	default:
		results = append(results, check.APIService(service))
	}
	for _, served := range []struct{ name, component, generated string }{
		{"of the REST API", "apiserver", certificates.SecretName}, {"of the gateway", "gateway", certificates.GatewaySecretName},
	} {
		name, secretName := served.name, check.CertificateSecret(processes, served.component, served.generated)
		if secretName == "" {
			continue
		}
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.ObjectKey{Namespace: s.flags.systemNamespace, Name: secretName}, secret)
		switch {
		case isForbidden(err):
			results = append(results, check.Unreadable("Certificate "+name, "the Secret "+secretName))
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		default:
			results = append(results, check.Certificate(name, secret.Data[corev1.TLSCertKey], s.Now()))
		}
	}
	return results, nil
}

// checkAccounts judges channels and accounts, and for each account its role bindings and hosts.
func (s *session) checkAccounts(ctx context.Context, c client.Reader, dns bool) ([]check.Result, error) {
	var results []check.Result
	accounts := &v1alpha1.AccountList{}
	for _, kind := range []struct {
		name string
		list client.ObjectList
	}{{"Release channels", &v1alpha1.ReleaseChannelList{}}, {"Accounts", accounts}} {
		err := c.List(ctx, kind.list)
		if isForbidden(err) {
			results = append(results, check.Unreadable(kind.name, "them"))
			continue
		}
		if err != nil {
			if isMissingKind(err) {
				return results, nil // the check of the CRDs has reported it
			}
			return nil, err
		}
		var objects []v1alpha1.Object
		if err := eachObject(kind.list, func(o v1alpha1.Object) { objects = append(objects, o) }); err != nil {
			return nil, err
		}
		results = append(results, check.Objects(kind.name, objects))
	}
	for i := range accounts.Items {
		a := &accounts.Items[i]
		bindings := &rbacv1.RoleBindingList{}
		err := c.List(ctx, bindings, client.InNamespace(a.Spec.Namespace))
		switch {
		case isForbidden(err):
			results = append(results, check.Unreadable("Role bindings of "+a.Name, "rolebindings in "+a.Spec.Namespace))
		case err != nil:
			return nil, err
		default:
			results = append(results, check.RoleBindings(a, bindings.Items, s.flags.systemNamespace))
		}
		if dns {
			results = append(results, check.DNS(a, func(host string) ([]string, error) { return resolve(ctx, host) }))
		}
	}
	return results, nil
}

func resolve(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	return addresses, nil
}
