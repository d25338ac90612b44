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

// models remembers what is in the config maps that hold data models. Only their metadata is
// cached, for all config maps of a cluster would not fit; the content is read when its
// resource version is a new one.
type models struct {
	mu    sync.Mutex
	known map[client.ObjectKey]knownModel
}

type knownModel struct {
	resourceVersion string
	files           engine.ModelFiles
}

// files returns the model files of a deployment whose model is a ConfigMap; nil for another.
func (m *models) files(ctx context.Context, s *scope, d *v1alpha1.Deployment) (*engine.ModelFiles, *reconciler.Outcome) {
	ref := d.Spec.Model.ConfigMapRef
	if ref == nil {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: d.Namespace, Name: ref.Name}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := s.Get(ctx, key, seen); err != nil {
		return nil, unreadable(key, err)
	}
	m.mu.Lock()
	known, ok := m.known[key]
	m.mu.Unlock()
	if ok && known.resourceVersion == seen.ResourceVersion {
		return &known.files, nil
	}
	cm := &corev1.ConfigMap{}
	if err := s.Live().Get(ctx, key, cm); err != nil {
		return nil, unreadable(key, err)
	}
	known = knownModel{resourceVersion: cm.ResourceVersion, files: filesOf(cm)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[client.ObjectKey]knownModel{}
	}
	m.known[key] = known
	return &known.files, nil
}

func unreadable(key client.ObjectKey, err error) *reconciler.Outcome {
	if apierrors.IsNotFound(err) {
		o := reconciler.Stalled(v1alpha1.ReasonModelNotFound, fmt.Sprintf(
			"spec.model.configMapRef: config map %q does not exist in namespace %q", key.Name, key.Namespace))
		return &o
	}
	return failed(fmt.Errorf("read config map %q: %w", key.Name, err))
}

// filesOf names the files in a config map and hashes their content, so that a change of the
// model is a change of the environment.
func filesOf(cm *corev1.ConfigMap) engine.ModelFiles {
	hash := sha256.New()
	names := slices.Sorted(maps.Keys(cm.Data))
	for _, name := range names {
		fmt.Fprintf(hash, "%d:%s%d:%s", len(name), name, len(cm.Data[name]), cm.Data[name])
	}
	return engine.ModelFiles{ConfigMap: cm.Name, Keys: names, ContentHash: hex.EncodeToString(hash.Sum(nil)[:8])}
}
