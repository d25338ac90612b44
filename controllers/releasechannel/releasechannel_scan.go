package releasechannel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/registry"
	"github.com/quoin-dev/quoin/internal/version"
)

// maxConcurrentReads limits concurrent reads of digests from a registry.
const maxConcurrentReads = 4

// Registry reads an image repository.
type Registry interface {
	Tags(ctx context.Context, repository string) ([]string, error)
	Digests(ctx context.Context, repository string, tags []string, concurrency int) (map[string]string, error)
	CloseIdleConnections()
}

func connect(o registry.Options) (Registry, error) { return registry.New(o) }

// secretError reports a pull secret that cannot be used.
type secretError struct {
	namespace, name, problem string
}

func (e *secretError) Error() string {
	return fmt.Sprintf("spec.pullSecretRef: secret %q in namespace %q %s", e.name, e.namespace, e.problem)
}

// scan reads the versions of the channel from its registry. Known digests are not read again,
// except for that of the newest version.
func (r *channelReconciler) scan(ctx context.Context, s *reconciler.Scope[*v1alpha1.ReleaseChannel], selection *selection) (*scanResult, error) {
	spec := &s.Object.Spec
	keychain, err := r.keychain(ctx, s)
	if err != nil {
		return nil, err
	}
	reg, err := r.Connect(registry.Options{
		Keychain: keychain, CABundle: []byte(spec.CABundle),
		PlainHTTP: spec.Insecure != nil && *spec.Insecure || onLoopback(spec.ImageRepository),
	})
	if err != nil {
		return nil, fmt.Errorf("spec.caBundle: %w", err)
	}
	defer reg.CloseIdleConnections()

	tags, err := reg.Tags(ctx, spec.ImageRepository)
	if err != nil {
		return nil, err
	}
	f := &scanResult{spec: spec, selected: selection.of(tags), specified: selection.listed, digests: map[version.Version]string{}}
	f.missing = missing(selection, f.selected)
	known := map[string]bool{}
	for _, v := range s.Object.Status.Versions {
		known[v.Image] = v.Digest != ""
	}
	var unread []version.Version
	for i, v := range f.selected {
		if f.specified[v] == "" && (i == 0 || !known[v.Image(spec.ImageRepository)]) {
			unread = append(unread, v)
		}
	}
	if err := read(ctx, reg, spec.ImageRepository, unread, f.digests); err != nil {
		return nil, err
	}
	f.storeDigests, err = readStore(ctx, reg, s.Object, f.selected)
	return f, err
}

// onLoopback reports whether a repository is on the local host, where plain HTTP is safe.
func onLoopback(repository string) bool {
	host, _, _ := strings.Cut(repository, "/")
	name, _, _ := strings.Cut(host, ":")
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// readStore reads the digests of the store's images that are not known yet. A version without a
// store image is not an error: not every deployment needs one.
func readStore(ctx context.Context, reg Registry, channel *v1alpha1.ReleaseChannel, chosen []version.Version) (map[version.Version]string, error) {
	repository := channel.Spec.StoreImageRepository
	known := map[string]bool{}
	for _, v := range channel.Status.Versions {
		known[v.Version] = hasImage(v.StoreImage, repository+":v"+v.Version)
	}
	unknown := slices.DeleteFunc(slices.Clone(chosen), func(v version.Version) bool { return known[v.String()] })
	if repository == "" || len(unknown) == 0 {
		return nil, nil
	}
	tags, err := reg.Tags(ctx, repository)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	unknown = slices.DeleteFunc(unknown, func(v version.Version) bool { return !slices.Contains(tags, v.Tag()) })
	digests := map[version.Version]string{}
	return digests, read(ctx, reg, repository, unknown, digests)
}

func read(ctx context.Context, reg Registry, repository string, versions []version.Version, into map[version.Version]string) error {
	if len(versions) == 0 {
		return nil
	}
	byTag := map[string]version.Version{}
	for _, v := range versions {
		byTag[v.Tag()] = v
	}
	digests, err := reg.Digests(ctx, repository, slices.Sorted(maps.Keys(byTag)), maxConcurrentReads)
	for tag, digest := range digests {
		into[byTag[tag]] = digest
	}
	return err
}

// missing returns the versions of an explicit list that the repository does not have.
func missing(s *selection, chosen []version.Version) []string {
	var names []string
	for v := range s.listed {
		if !slices.Contains(chosen, v) {
			names = append(names, v.String())
		}
	}
	slices.Sort(names)
	return names
}

// keychain reads the pull secret from the API server: Secrets are not cached.
func (r *channelReconciler) keychain(ctx context.Context, s *reconciler.Scope[*v1alpha1.ReleaseChannel]) (authn.Keychain, error) {
	ref := s.Object.Spec.PullSecretRef
	if ref == nil {
		return nil, nil
	}
	problem := func(text string) error { return &secretError{namespace: r.Namespace, name: ref.Name, problem: text} }
	secret := &corev1.Secret{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problem("does not exist")
	case apierrors.IsForbidden(err):
		return nil, problem("may not be read by the controller")
	case err != nil:
		return nil, fmt.Errorf("read pull secret: %w", err)
	}
	data, ok := secret.Data[corev1.DockerConfigJsonKey]
	if !ok {
		return nil, problem(fmt.Sprintf("has no key %q; it must be of type %s", corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson))
	}
	keychain, err := registry.ParseDockerConfig(data)
	if err != nil {
		return nil, problem("cannot be used: " + err.Error())
	}
	return keychain, nil
}
