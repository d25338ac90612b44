package dbtobjects

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Keys of a ConfigMap with a manifest.
const (
	manifestKey       = "manifest.json"
	packedManifestKey = "manifest.json.gz"
)

// configMapGrace is how long a new object may wait for its ConfigMap.
const configMapGrace = 30 * time.Second

// The author of commits of syncs that no caller of the REST API has started.
const (
	authorName  = "Quoin dbt sync"
	authorEmail = "dbt-sync@quoin.invalid"
)

// start stores the row of an object that a user has created.
func (o *Objects) start(ctx context.Context, obj *v1alpha1.DbtSync, d *v1alpha1.Deployment, of content.Scope) error {
	source := obj.Spec.Source
	production, root, writable := modelOf(d)
	switch {
	case source.Git != nil && !o.Git:
		return nil // the controller reports it
	case !writable:
		return o.end(ctx, obj, "spec.deploymentRef: the data model of deployment "+d.Name+" is not in a Git repository: neither spec.model.repository nor spec.model.git is set; sync to files over REST")
	case obj.Spec.Branch != "" && obj.Spec.Branch == production:
		return o.end(ctx, obj, "spec.branch: it is the production branch; name another one, which is reviewed and merged")
	case d.Labels[v1alpha1.LabelID] == "":
		return nil // the deployment is new
	}
	n := dbtsync.New{
		ID: string(obj.UID), ObjectName: obj.Name, ObjectUID: string(obj.UID), DeploymentNumber: d.Labels[v1alpha1.LabelID],
		Trigger: cmp.Or(string(obj.Spec.Trigger), "manual"), Output: dbtsync.ToBranch, Git: source.Git, Branch: obj.Spec.Branch,
		Base: production, Root: root, AuthorName: authorName, AuthorEmail: authorEmail,
		Options: ptr.Deref(obj.Spec.Options, v1alpha1.DbtOptions{}), Catalog: engine.LiteralVariable(d, engine.VariableCatalog),
	}
	if source.Git != nil {
		n.Ref = source.Git.Ref
	}
	if n.Branch == "" {
		n.Branch = dbtsync.NewBranch(n, o.Now())
	}
	if source.Manifest != nil {
		var invalid *dbt.Error
		var err error
		n.Manifest, err = o.readManifest(ctx, obj)
		switch {
		case errors.As(err, &invalid):
			return o.end(ctx, obj, invalid.Message)
		case err != nil || n.Manifest == nil:
			return err
		}
	}
	_, err := o.Syncs.Start(ctx, of, "DbtSync:"+obj.Namespace+"/"+obj.Name, n)
	var rejected *content.Error
	if errors.As(err, &rejected) {
		if rejected.Reason == content.Conflict {
			return nil // it waits until other syncs have ended
		}
		return o.end(ctx, obj, rejected.Message)
	}
	o.Wake()
	return err
}

// modelOf returns the branch that production serves and the directory of the data model, and whether it is in
// a Git repository. The branch is empty if it is the default one of a remote: the worker asks the remote,
// which may take long to answer.
func modelOf(d *v1alpha1.Deployment) (production, root string, writable bool) {
	switch model := d.Spec.Model; {
	case model.Repository != nil:
		return model.Repository.BranchName(), model.Repository.Path, true
	case model.Git != nil:
		return model.Git.Branch, path.Clean("/" + model.Git.Path)[1:], true
	}
	return "", "", false
}

// readManifest returns the manifest of a ConfigMap as a delivery; nil if the ConfigMap may be about to be
// created. Errors for users are a *dbt.Error.
func (o *Objects) readManifest(ctx context.Context, obj *v1alpha1.DbtSync) ([]byte, error) {
	name := obj.Spec.Source.Manifest.ConfigMapRef.Name
	invalid := func(format string, args ...any) error {
		return &dbt.Error{Message: fmt.Sprintf("spec.source.manifest.configMapRef: config map %q ", name) + fmt.Sprintf(format, args...)}
	}
	files := &corev1.ConfigMap{}
	err := o.Live.Get(ctx, types.NamespacedName{Namespace: obj.Namespace, Name: name}, files)
	switch {
	case apierrors.IsNotFound(err) && o.Now().Sub(obj.CreationTimestamp.Time) < configMapGrace:
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, invalid("does not exist")
	case err != nil:
		return nil, err
	}
	var source io.Reader
	text, packed := files.Data[manifestKey], files.BinaryData[packedManifestKey]
	switch {
	case text != "":
		source = strings.NewReader(text)
	case len(packed) > 0:
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, invalid("has the key %s, which is not gzip", packedManifestKey)
		}
		source = io.LimitReader(unpacked, dbt.MaxManifestBytes+1)
	default:
		return nil, invalid("has none of the keys %s and %s", manifestKey, packedManifestKey)
	}
	return pack(io.MultiReader(strings.NewReader(`{"manifest":`), source, strings.NewReader("}")))
}

// pack checks a delivery and returns it compressed. Errors of its content are a *dbt.Error.
func pack(source io.Reader) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	delivery, err := dbtsync.ReadDelivery(io.TeeReader(source, w))
	if err != nil {
		return nil, err
	}
	if delivery.Manifest == nil {
		return nil, &dbt.Error{Message: "manifest: it is absent or empty"}
	}
	err = w.Close()
	return packed.Bytes(), err
}

// admit creates the Secret with which the pod delivers the manifest, and lets the controller begin.
func (o *Objects) admit(ctx context.Context, obj *v1alpha1.DbtSync, p *dbtsync.Pending) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: obj.Namespace, Name: engine.DbtDeliveryName(obj.Name), Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "DbtSync", Name: obj.Name, UID: obj.UID, Controller: ptr.To(true),
			}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{corev1.BasicAuthPasswordKey: []byte(rand.Text()), git.KeyCACert: o.Trusted()},
	}
	err := o.Writer.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		existing := &corev1.Secret{}
		if err := o.Live.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
			return err
		}
		if kube.IsOfEarlier(existing, "DbtSync", obj) {
			return nil // the next pass tries again
		}
		if !metav1.IsControlledBy(existing, obj) {
			return o.Syncs.Fail(ctx, p, p.Stage, nil, fmt.Sprintf("secret %q exists and does not belong to the DbtSync: delete it", secret.Name))
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return o.patch(ctx, obj, func(s *v1alpha1.DbtSyncStatus) {
		s.Stage = v1alpha1.DbtStageInitializing
		describe(s, p)
	})
}
