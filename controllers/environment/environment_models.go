package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// models caches the files of data models in ConfigMaps. The informer cache has only their
// metadata, because the ConfigMaps of the whole cluster may not fit in memory; the content is
// read when the name or the resource version has changed. There is one model for each environment:
// ConfigMaps whose names have a hash are replaced with each change.
type models struct {
	mu     sync.Mutex
	models map[client.ObjectKey]model
}

type model struct {
	resourceVersion string
	files           engine.ModelFiles
}

// files returns the model files of a deployment whose model is a ConfigMap; nil for others.
func (m *models) files(ctx context.Context, s *scope, d *v1alpha1.Deployment) (*engine.ModelFiles, *reconciler.Outcome) {
	ref, env := d.Spec.Model.ConfigMapRef, client.ObjectKeyFromObject(s.Object)
	if ref == nil {
		m.forget(env)
		return nil, nil
	}
	key := client.ObjectKey{Namespace: d.Namespace, Name: ref.Name}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := s.Get(ctx, key, metadata); err != nil {
		return nil, unreadable(key, err)
	}
	m.mu.Lock()
	cached, ok := m.models[env]
	m.mu.Unlock()
	if ok && cached.files.ConfigMap == ref.Name && cached.resourceVersion == metadata.ResourceVersion {
		return &cached.files, nil
	}
	cm := &corev1.ConfigMap{}
	if err := s.Live().Get(ctx, key, cm); err != nil {
		return nil, unreadable(key, err)
	}
	cached = model{resourceVersion: cm.ResourceVersion, files: filesOf(cm)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.models == nil {
		m.models = map[client.ObjectKey]model{}
	}
	m.models[env] = cached
	return &cached.files, nil
}

// forget removes the model of an environment.
func (m *models) forget(env client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.models, env)
}

func unreadable(key client.ObjectKey, err error) *reconciler.Outcome {
	if apierrors.IsNotFound(err) {
		o := reconciler.NotFound(v1alpha1.ReasonModelNotFound, fmt.Sprintf(
			"spec.model.configMapRef: config map %q does not exist in namespace %q", key.Name, key.Namespace))
		return &o
	}
	return failed(fmt.Errorf("read config map %q: %w", key.Name, err))
}

// filesOf returns the names and the hash of the files in a ConfigMap, so that a change of the
// model changes the environment.
func filesOf(cm *corev1.ConfigMap) engine.ModelFiles {
	hash := sha256.New()
	names := slices.Sorted(maps.Keys(cm.Data))
	for _, name := range names {
		fmt.Fprintf(hash, "%d:%s%d:%s", len(name), name, len(cm.Data[name]), cm.Data[name])
	}
	return engine.ModelFiles{ConfigMap: cm.Name, Keys: names, ContentHash: hex.EncodeToString(hash.Sum(nil)[:8])}
}
