package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/plugin/bundle"
)

// Limits of what an archive contains.
const (
	maxBundled  = 5000    // objects of a kind in a namespace
	maxLogLines = 2000    // lines of a log
	maxLogBytes = 1 << 20 // bytes of a log
	maxLogs     = 200     // logs
)

// personal are the kinds with personal data, which an archive omits.
var personal = map[string]bool{"ScimUser": true, "ScimGroup": true, "ScimMemberChunk": true}

// bundleOptions are the flags of `bundle`.
type bundleOptions struct {
	file          string
	allNamespaces bool
	logs          bool
}

func bundleCommand(s *session) *cobra.Command {
	o := &bundleOptions{}
	c := &cobra.Command{
		Use:     "bundle",
		GroupID: groupRead,
		Short:   "Write a support archive without secrets",
		Long: `Writes a tar.gz with the objects of Quoin, their workloads, pods, events and logs, and the results of
check. Secrets, users and data models are not included. Values of variables and of fields with the name
of a secret, credentials with a known form, and the values of all Secrets that the caller may read are
replaced by [HIDDEN]. problems.txt lists what could not be read. Read the archive before you send it.`,
		Example: `  kubectl quoin bundle -n demo
  kubectl quoin bundle -A --file quoin.tar.gz`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "Name of the archive; - for the standard output. quoin-bundle-<time>.tar.gz when empty.")
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Include the namespaces of all accounts.")
	c.Flags().BoolVar(&o.logs, "logs", true, "Include the logs of the pods.")
	c.RunE = run(func(ctx context.Context, _ []string) error { return s.bundle(ctx, o) })
	return c
}

func (s *session) bundle(ctx context.Context, o *bundleOptions) error {
	b, err := s.collect(ctx, o)
	if err != nil {
		return err
	}
	now := s.Now().UTC()
	root := "quoin-bundle-" + now.Format("20060102T150405Z")
	if o.file == "-" {
		return b.Write(s.Stdout, root, now)
	}
	if o.file == "" {
		o.file = root + ".tar.gz"
	}
	// Not readable by others: it describes the installation.
	file, err := os.OpenFile(o.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Write(file, root, now), file.Close()); err != nil {
		return err
	}
	message := o.file
	if n := b.Problems(); n > 0 {
		message += fmt.Sprintf(" (%d things could not be read: see problems.txt)", n)
	}
	_, err = fmt.Fprintln(s.Stdout, message)
	return err
}

// collect reads what the archive contains, as far as the caller may.
func (s *session) collect(ctx context.Context, o *bundleOptions) (*bundle.Bundle, error) {
	c, key, err := s.inNamespace("")
	if err != nil {
		return nil, err
	}
	kubernetes, err := s.kubernetesVersion(ctx)
	if err != nil {
		return nil, err
	}
	b := &collection{session: s, client: c, logs: o.logs}
	if err := b.Object("versions.yaml", map[string]string{"kubernetes": kubernetes, "plugin": s.Version}); err != nil {
		return nil, err
	}
	results, err := s.checks(ctx, false)
	if err != nil {
		b.Problem("check", err)
	}
	if err := b.Object("check.yaml", results); err != nil {
		return nil, err
	}
	for _, kind := range v1alpha1.Kinds {
		if kind.Cluster {
			list, _ := kind.NewList().(client.ObjectList)
			b.list(ctx, "cluster/"+kind.Plural+".yaml", list, "")
		}
	}
	b.list(ctx, "cluster/nodes.yaml", &corev1.NodeList{}, "")
	namespaces := []string{key.Namespace}
	if o.allNamespaces {
		namespaces = nil
		accounts := &v1alpha1.AccountList{}
		if err := c.List(ctx, accounts); err != nil {
			return nil, err
		}
		for i := range accounts.Items { // two may name the same namespace
			if namespace := accounts.Items[i].Spec.Namespace; !slices.Contains(namespaces, namespace) {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	// The logs of Quoin are the first ones, so that those of accounts do not exceed the limit before them.
	b.workloads(ctx, s.flags.systemNamespace)
	for _, namespace := range namespaces {
		b.objects(ctx, namespace)
		if namespace != s.flags.systemNamespace {
			b.workloads(ctx, namespace)
		}
	}
	return &b.Bundle, ctx.Err()
}

// collection is an archive under construction.
type collection struct {
	bundle.Bundle
	session *session
	client  client.Client
	logs    bool
	logged  int
}

// objects adds Quoin's objects in a namespace.
func (b *collection) objects(ctx context.Context, namespace string) {
	for _, kind := range v1alpha1.Kinds {
		if !kind.Cluster && !personal[kind.Name()] {
			list, _ := kind.NewList().(client.ObjectList)
			b.list(ctx, path.Join("namespaces", namespace, kind.Plural+".yaml"), list, namespace)
		}
	}
}

// workloads adds workloads, pods, events and logs of a namespace, and hides the values of its Secrets.
func (b *collection) workloads(ctx context.Context, namespace string) {
	b.hideSecrets(ctx, namespace)
	in := func(name string) string { return path.Join("namespaces", namespace, name) }
	b.list(ctx, in("apps-deployments.yaml"), &appsv1.DeploymentList{}, namespace)
	b.list(ctx, in("statefulsets.yaml"), &appsv1.StatefulSetList{}, namespace)
	b.list(ctx, in("services.yaml"), &corev1.ServiceList{}, namespace)
	b.list(ctx, in("events.yaml"), &corev1.EventList{}, namespace)
	pods := &corev1.PodList{}
	b.list(ctx, in("pods.yaml"), pods, namespace)
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			b.log(ctx, pod, status.Name, false)
			if status.RestartCount > 0 {
				b.log(ctx, pod, status.Name, true)
			}
		}
	}
}

// list adds the objects of a kind.
func (b *collection) list(ctx context.Context, name string, list client.ObjectList, namespace string) {
	options := []client.ListOption{client.Limit(maxBundled), client.InNamespace(namespace)}
	if err := b.client.List(ctx, list, options...); err != nil {
		b.Problem(name, err)
		return
	}
	if list.GetContinue() != "" {
		b.Problem(name, fmt.Errorf("only the first %d objects", maxBundled))
	}
	var items []runtime.Object
	if err := meta.EachListItem(list, func(o runtime.Object) error { items = append(items, o); return nil }); err != nil {
		b.Problem(name, err)
		return
	}
	if len(items) == 0 {
		return
	}
	if err := b.Object(name, items); err != nil {
		b.Problem(name, err)
	}
}

// log adds the end of the log of a container.
func (b *collection) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	if !b.logs {
		return
	}
	if b.logged++; b.logged > maxLogs {
		if b.logged == maxLogs+1 {
			b.Problem("logs", fmt.Errorf("only the first %d", maxLogs))
		}
		return
	}
	name := container
	query := url.Values{"container": {container}, "timestamps": {"true"}, "tailLines": {fmt.Sprint(maxLogLines)}, "limitBytes": {fmt.Sprint(maxLogBytes)}}
	if previous {
		name += "-previous"
		query.Set("previous", "true")
	}
	name = path.Join("namespaces", pod.Namespace, "logs", pod.Name, name+".log")
	a, err := b.session.kubernetes(ctx, request{method: "GET", path: "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/log?" + query.Encode()})
	if err != nil {
		b.Problem(name, errors.New(oneLine(err.Error())))
		return
	}
	b.Text(name, a.body)
}

// hideSecrets reads all Secrets of a namespace, if the caller may, to hide their values in all files.
// They are not added.
func (b *collection) hideSecrets(ctx context.Context, namespace string) {
	for secrets, err := range kube.Pages(ctx, b.client, &corev1.SecretList{}, client.InNamespace(namespace)) {
		if err != nil {
			if !isForbidden(err) {
				b.Problem("the Secrets of "+namespace+", to hide their values", err)
			}
			return
		}
		for i := range secrets.Items {
			for name, value := range secrets.Items[i].Data {
				if !strings.HasSuffix(name, ".crt") { // certificates are public
					b.Hide(name, string(value))
				}
			}
		}
	}
}
