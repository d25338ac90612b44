package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// maxManifest bounds a manifest, bytes; the specification's own limit.
	maxManifest = 4 << 20

	digestHeader       = "Docker-Content-Digest"
	defaultConcurrency = 4
)

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// manifestTypes are the accepted media types. Indexes come first, so that the
// digest of a multi-platform image is that of its index.
var manifestTypes = []string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
}

// Digest returns the digest of a tag, "sha256:<64 hex>": that of the index of a
// multi-platform image, otherwise that of the manifest. It sends a HEAD
// request, and a GET request if the response has no digest.
//
// The error is an *Error of one of the kinds (a missing tag: ErrNotFound), or
// wraps ErrInvalidName.
//
// Source: OCI Distribution Specification, headings "Pulling manifests" and
// "Checking if content exists in the registry".
func (c *Client) Digest(ctx context.Context, repository, tag string) (string, error) {
	if err := checkTag(tag); err != nil {
		return "", err
	}
	s, err := c.open(ctx, repository)
	if err != nil {
		return "", err
	}
	return s.digest(ctx, tag)
}

// Digests returns the digests of several tags, with up to concurrency requests
// at a time (4 if it is not positive). A tag that does not exist, for example
// because it was deleted after it was listed, is omitted; any other error ends
// the call.
func (c *Client) Digests(ctx context.Context, repository string, tags []string, concurrency int) (map[string]string, error) {
	for _, tag := range tags {
		if err := checkTag(tag); err != nil {
			return nil, err
		}
	}
	s, err := c.open(ctx, repository)
	if err != nil {
		return nil, err
	}
	if concurrency <= 0 {
		concurrency = defaultConcurrency
	}
	unique := slices.Clone(tags)
	slices.Sort(unique)
	return s.digests(ctx, slices.Compact(unique), concurrency)
}

func (s *session) digests(ctx context.Context, tags []string, concurrency int) (map[string]string, error) {
	var mu sync.Mutex
	digests := make(map[string]string, len(tags))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, tag := range tags {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return s.transportError(groupCtx, err)
			}
			digest, err := s.digest(groupCtx, tag)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			digests[tag] = digest
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return digests, nil
}

func (s *session) digest(ctx context.Context, tag string) (string, error) {
	address := s.address("manifests", tag)
	resp, err := s.do(ctx, http.MethodHead, address, manifestTypes)
	if err != nil {
		return "", err
	}
	discard(resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
		if digest := resp.Header.Get(digestHeader); digestPattern.MatchString(digest) {
			return digest, nil
		}
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		// Some registries do not support HEAD.
	default:
		return "", s.statusError(resp.StatusCode, "tag "+tag)
	}
	return s.manifestDigest(ctx, address, tag)
}

// manifestDigest reads the manifest and hashes it.
func (s *session) manifestDigest(ctx context.Context, address, tag string) (string, error) {
	resp, err := s.do(ctx, http.MethodGet, address, manifestTypes)
	if err != nil {
		return "", err
	}
	defer discard(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", s.statusError(resp.StatusCode, "tag "+tag)
	}
	manifest, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return "", s.transportError(ctx, err)
	}
	if len(manifest) > maxManifest {
		return "", s.protocolError("manifest too large")
	}
	sum := sha256.Sum256(manifest)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if declared := resp.Header.Get(digestHeader); digestPattern.MatchString(declared) && declared != digest {
		return "", s.protocolError("a manifest does not match the digest in the response")
	}
	return digest, nil
}
