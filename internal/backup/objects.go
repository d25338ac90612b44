package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

// isManaged reports whether Quoin has created a Secret: it has the label, or is controlled by an object of Quoin, as those from before
// the REST API labelled what it creates.
func isManaged(secret *unstructured.Unstructured) bool {
	if secret.GetLabels()[engine.LabelManagedBy] == engine.ManagedBy {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(secret)
	if owner == nil {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1alpha1.Group
}

// The kinds of the objects that are not of Quoin's group.
var (
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
)

func quoinKind(name string) schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind(name) }

// namespacedKinds returns the namespaced kinds of Quoin: owners before the objects that they own.
func namespacedKinds() (names []string) {
	var owned []string
	for _, k := range v1alpha1.Kinds {
		switch name := k.Name(); {
		case k.Cluster:
		case name == "DbtSync", name == "ApiKey": // owned by a Deployment or a ScimUser, and deleted before it
			owned = append(owned, name)
		default:
			names = append(names, name)
		}
	}
	// Claims are the last kind: all others own some.
	i := slices.Index(names, "Claim")
	return slices.Insert(names, i, owned...)
}

// objects reads the objects of a cluster.
type objects struct {
	reader    client.Reader
	namespace string
	secrets   bool
	write     func(*unstructured.Unstructured) error
}

// writeAll writes all objects in the order in which they are restored.
func (o *objects) writeAll(ctx context.Context) error {
	accounts, err := o.accounts(ctx)
	if err != nil {
		return err
	}
	namespaces := []string{}
	for _, a := range accounts {
		namespace, _, err := unstructured.NestedString(a.Object, "spec", "namespace")
		if err != nil {
			return err
		}
		if namespace != "" && namespace != o.namespace && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	for _, name := range append([]string{o.namespace}, namespaces...) {
		if err := o.writeNamespace(ctx, name); err != nil {
			return err
		}
	}
	for _, kind := range v1alpha1.Kinds {
		if !kind.Cluster || kind.Name() == "Account" {
			continue
		}
		if err := o.list(ctx, quoinKind(kind.Name()), o.write); err != nil {
			return err
		}
	}
	for _, a := range accounts {
		if err := o.write(a); err != nil {
			return err
		}
	}
	for _, kind := range namespacedKinds() {
		for _, namespace := range namespaces {
			if err := o.list(ctx, quoinKind(kind), o.write, client.InNamespace(namespace)); err != nil {
				return err
			}
		}
	}
	if err := o.list(ctx, quoinKind("Claim"), o.write, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	if !o.secrets {
		return nil
	}
	for _, namespace := range append(namespaces, o.namespace) {
		if err := o.list(ctx, secretKind, o.writeManaged, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	return nil
}

// writeManaged writes a Secret that Quoin has created.
func (o *objects) writeManaged(secret *unstructured.Unstructured) error {
	if !isManaged(secret) {
		return nil
	}
	return o.write(secret)
}

// accounts returns the accounts, the oldest first: of two with the same namespace, the older one has it.
func (o *objects) accounts(ctx context.Context) (all []*unstructured.Unstructured, err error) {
	err = o.list(ctx, quoinKind("Account"), func(a *unstructured.Unstructured) error {
		all = append(all, a)
		return nil
	})
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(x.Compare(y.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all, err
}

// ledgers returns the ids that accounts have issued.
func (o *objects) ledgers(ctx context.Context) (all []ledger, err error) {
	err = o.list(ctx, quoinKind("Account"), func(a *unstructured.Unstructured) error {
		if ids := a.GetAnnotations()[v1alpha1.AnnotationIssuedIDs]; ids != "" {
			all = append(all, ledger{Account: a.GetName(), IDs: ids})
		}
		return nil
	})
	return all, err
}

func (o *objects) writeNamespace(ctx context.Context, name string) error {
	n := &unstructured.Unstructured{}
	n.SetGroupVersionKind(namespaceKind)
	err := o.reader.Get(ctx, client.ObjectKey{Name: name}, n)
	if apierrors.IsNotFound(err) && name == o.namespace { // the archive would lack the claims of hosts, and a restore would look there for a controller
		return fmt.Errorf("the namespace %q does not exist: set --namespace to that of Quoin", name)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return o.write(n)
}

// list calls each for the objects of a kind that are not being deleted.
func (o *objects) list(ctx context.Context, kind schema.GroupVersionKind, each func(*unstructured.Unstructured) error, options ...client.ListOption) error {
	empty := &unstructured.UnstructuredList{}
	empty.SetGroupVersionKind(kind)
	for page, err := range kube.Pages(ctx, o.reader, empty, options...) {
		if err != nil {
			return fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
		}
		for i := range page.Items {
			if obj := &page.Items[i]; obj.GetDeletionTimestamp() == nil {
				if err := each(obj); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
