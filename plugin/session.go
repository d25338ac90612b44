package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fieldowner"
)

// commonFlags are the flags of all commands: those of kubectl for the connection, and for the output.
type commonFlags struct {
	kubeconfig      string
	overrides       clientcmd.ConfigOverrides
	connection      *pflag.FlagSet
	systemNamespace string
}

func (f *commonFlags) register(root *cobra.Command) {
	f.connection = pflag.NewFlagSet("connection", pflag.ContinueOnError)
	f.connection.StringVar(&f.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", "" // as in kubectl
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&f.overrides, f.connection, names)
	root.PersistentFlags().AddFlagSet(f.connection)
	root.PersistentFlags().StringVar(&f.systemNamespace, "system-namespace", "quoin-system", "Namespace that Quoin is installed in.")
}

// session is one run of the plugin.
type session struct {
	Options
	flags  commonFlags
	config *rest.Config
	client client.WithWatch
}

// loader returns the kubeconfig with the flags.
func (s *session) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.flags.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &s.flags.overrides)
}

// namespace returns the namespace of the flags, or of the kubeconfig.
func (s *session) namespace() (string, error) {
	namespace, _, err := s.loader().Namespace()
	return namespace, err
}

// connect returns a client. It sends no request.
func (s *session) connect() (client.WithWatch, error) {
	if s.client != nil {
		return s.client, nil
	}
	config, err := s.loader().ClientConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = Name + "/" + s.Version
	config.QPS = -1 // API Priority and Fairness limits the requests
	config.WarningHandler = rest.NewWarningWriter(s.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return nil, err
	}
	s.config, s.client = config, strictClient{client.WithFieldValidation(c, metav1.FieldValidationStrict), c}
	return s.client, nil
}

// strictClient is a client whose writes fail if the installed CRD does not have a field. Otherwise the API server would drop
// the field, and the command would report a change.
type strictClient struct {
	client.Client
	watcher client.WithWatch
}

// Watch implements client.WithWatch.
func (c strictClient) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	return c.watcher.Watch(ctx, list, options...)
}

// inNamespace returns a client, and the key of an object in the namespace of the flags.
func (s *session) inNamespace(name string) (client.WithWatch, client.ObjectKey, error) {
	c, err := s.connect()
	if err != nil {
		return nil, client.ObjectKey{}, err
	}
	namespace, err := s.namespace()
	return c, client.ObjectKey{Namespace: namespace, Name: name}, err
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme,
		rbacv1.AddToScheme, coordinationv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
}

// apiServiceKind is the kind of the registration of aggregated APIs.
var apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// newMapper returns the resources of all kinds that the plugin reads. They are known, so a command
// needs no discovery.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(gvk schema.GroupVersionKind, plural string, scope meta.RESTScope) {
		resource := gvk.GroupVersion().WithResource(plural)
		mapper.AddSpecific(gvk, resource, resource, scope)
	}
	for _, kind := range v1alpha1.Kinds {
		scope := meta.RESTScopeNamespace
		if kind.Cluster {
			scope = meta.RESTScopeRoot
		}
		add(v1alpha1.GroupVersion.WithKind(kind.Name()), kind.Plural, scope)
	}
	for _, plural := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{
		{corev1.SchemeGroupVersion.WithKind("Pod"), "pods"},
		{corev1.SchemeGroupVersion.WithKind("Event"), "events"},
		{corev1.SchemeGroupVersion.WithKind("Secret"), "secrets"},
		{corev1.SchemeGroupVersion.WithKind("Service"), "services"},
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments"},
		{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "statefulsets"},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "rolebindings"},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), "leases"},
	} {
		add(plural.gvk, plural.name, meta.RESTScopeNamespace)
	}
	add(corev1.SchemeGroupVersion.WithKind("Node"), "nodes", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces", meta.RESTScopeRoot)
	add(storagev1.SchemeGroupVersion.WithKind("StorageClass"), "storageclasses", meta.RESTScopeRoot)
	add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "customresourcedefinitions", meta.RESTScopeRoot)
	add(apiServiceKind, "apiservices", meta.RESTScopeRoot)
	return mapper
}

// account returns the name of the account of a namespace. A caller who may not list accounts gets the
// name of the namespace, which is usually the same.
func (s *session) account(ctx context.Context, c client.Reader, namespace string) (string, error) {
	list := &v1alpha1.AccountList{}
	if err := c.List(ctx, list); err != nil {
		if isForbidden(err) {
			return namespace, nil
		}
		return "", err
	}
	i := slices.IndexFunc(list.Items, func(a v1alpha1.Account) bool { return a.Spec.Namespace == namespace })
	if i < 0 {
		return "", fmt.Errorf("no Account has the namespace %q: set -n or --account", namespace)
	}
	return list.Items[i].Name, nil
}

// manager is the field manager of the plugin's writes.
const manager = client.FieldOwner(fieldowner.Plugin)
