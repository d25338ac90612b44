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

// scan reads the versions of the channel from its registry. It does not use the registry if the list of versions has all
// digests. If only images of the store are not known, an error is part of the result.
func (r *channelReconciler) scan(ctx context.Context, s *reconciler.Scope[*v1alpha1.ReleaseChannel], selection *selection) (*scanResult, error) {
	f := &scanResult{spec: &s.Object.Spec, listed: selection.listed, selected: selection.of(nil), digests: map[version.Version]string{}}
	needsTags := selection.needsTags()
	if !needsTags && len(f.withoutStore(s.Object.Status.Versions)) == 0 {
		return f, nil
	}
	reg, err := r.open(ctx, s)
	if err == nil {
		defer reg.CloseIdleConnections()
		if needsTags {
			err = f.readVersions(ctx, reg, selection, s.Object.Status.Versions)
		}
	}
	if err == nil {
		err = f.readStore(ctx, reg, s.Object.Status.Versions)
	}
	if err != nil && needsTags {
		return nil, err
	}
	f.storeErr = err
	return f, nil
}

// open returns a client of the channel's registry.
func (r *channelReconciler) open(ctx context.Context, s *reconciler.Scope[*v1alpha1.ReleaseChannel]) (Registry, error) {
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
	return reg, nil
}

// readVersions reads the tags of the repository and their digests. Known digests are not read again, except for that of the
// newest version.
func (f *scanResult) readVersions(ctx context.Context, reg Registry, selection *selection, known []v1alpha1.ChannelVersion) error {
	tags, err := reg.Tags(ctx, f.spec.ImageRepository)
	if err != nil {
		return err
	}
	f.selected = selection.of(tags)
	f.missing = missing(selection, f.selected)
	pinned := map[string]bool{}
	for _, v := range known {
		pinned[v.Image] = v.Digest != ""
	}
	var unread []version.Version
	for i, v := range f.selected {
		if f.listed[v].Digest == "" && (i == 0 || !pinned[v.Image(f.spec.ImageRepository)]) {
			unread = append(unread, v)
		}
	}
	return read(ctx, reg, f.spec.ImageRepository, unread, f.digests)
}

// onLoopback reports whether a repository is on the local host, where plain HTTP is safe.
func onLoopback(repository string) bool {
	host, _, _ := strings.Cut(repository, "/")
	name, _, _ := strings.Cut(host, ":")
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// readStore reads the digests of the store's images that are not known yet. A version without a
// store image is not an error: not every deployment needs one.
func (f *scanResult) readStore(ctx context.Context, reg Registry, known []v1alpha1.ChannelVersion) error {
	unknown := f.withoutStore(known)
	if len(unknown) == 0 {
		return nil
	}
	repository := f.spec.StoreImageRepository
	tags, err := reg.Tags(ctx, repository)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	unknown = slices.DeleteFunc(unknown, func(v version.Version) bool { return !slices.Contains(tags, v.Tag()) })
	f.storeDigests = map[version.Version]string{}
	return read(ctx, reg, repository, unknown, f.storeDigests)
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
