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
// read when the resource version has changed. Environments of one account may share a ConfigMap, so it is read once for
// all of them, and forgotten with the last one: ConfigMaps whose names have a hash are replaced with each change.
type models struct {
	mu     sync.Mutex
	models map[client.ObjectKey]*model
	// of has the ConfigMap of each environment.
	of map[client.ObjectKey]client.ObjectKey
}

// model is a ConfigMap.
type model struct {
	resourceVersion string // empty until it has been read
	files           engine.ModelFiles
	// environments is the number of environments that use it.
	environments int
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
	if files, ok := m.use(env, key, metadata.ResourceVersion); ok {
		return &files, nil
	}
	cm := &corev1.ConfigMap{}
	if err := s.Live().Get(ctx, key, cm); err != nil {
		return nil, unreadable(key, err)
	}
	files := filesOf(cm)
	m.store(key, cm.ResourceVersion, files)
	return &files, nil
}

// use records the ConfigMap of an environment, and returns its files if they are known at a resource version.
func (m *models) use(env, key client.ObjectKey, resourceVersion string) (files engine.ModelFiles, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, known := m.of[env]; !known || before != key {
		m.release(env)
		if m.of == nil {
			m.models, m.of = map[client.ObjectKey]*model{}, map[client.ObjectKey]client.ObjectKey{}
		}
		if m.models[key] == nil {
			m.models[key] = &model{}
		}
		m.models[key].environments++
		m.of[env] = key
	}
	return m.models[key].files, m.models[key].resourceVersion == resourceVersion
}

// store stores the files of a ConfigMap, if an environment still uses it.
func (m *models) store(key client.ObjectKey, resourceVersion string, files engine.ModelFiles) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if used := m.models[key]; used != nil {
		used.resourceVersion, used.files = resourceVersion, files
	}
}

// forget removes an environment.
func (m *models) forget(env client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(env)
}

// release removes an environment, and its model if no other one uses it.
func (m *models) release(env client.ObjectKey) {
	key, ok := m.of[env]
	if !ok {
		return
	}
	delete(m.of, env)
	if m.models[key].environments--; m.models[key].environments == 0 {
		delete(m.models, key)
	}
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
