package membership

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/valueindex"
	"github.com/quoin-dev/quoin/internal/kube"
)

// concurrentWrites is the number of chunks that a change writes at a time.
const concurrentWrites = 8

// Expectation waits until the cache has a chunk that is about to be written.
type Expectation interface {
	// Version waits until the cache has the chunk at a resource version or later. It is best-effort:
	// it returns without an error after a timeout or when the context is done.
	Version(ctx context.Context, resourceVersion string)
	// End releases the expectation.
	End()
}

// Chunks reads and writes the ScimMemberChunks of all groups.
type Chunks struct {
	// Informer is an informer of ScimMemberChunks, whose events are passed to Changed.
	Informer toolscache.SharedIndexInformer
	// Kube reads from and writes to the API server.
	Kube *kube.Client
	// Clock is the clock for the annotation of reused chunks.
	Clock clock.PassiveClock
	// Expect begins to wait for a chunk; it is called before the chunk is written.
	Expect func(namespace, name string) Expectation

	// members is the index of the chunks by the values of their members.
	members *valueindex.Index[*v1alpha1.ScimMemberChunk]
	mu      sync.RWMutex
	// indexed are the cache keys of the chunks in the index, and whether their members are in ascending order, each once.
	indexed map[string]bool
}

// NewChunks completes c.
func NewChunks(c *Chunks) *Chunks {
	c.indexed = map[string]bool{}
	c.members = valueindex.New(func(chunk *v1alpha1.ScimMemberChunk, value string) bool {
		return (&part{members: chunk.Spec.AllMembers()}).find(value) != nil
	})
	return c
}

// valuesOf returns the values of the members of a chunk, which may be nil.
func valuesOf(chunk *v1alpha1.ScimMemberChunk) []string {
	if chunk == nil {
		return nil
	}
	return Values(chunk.Spec.AllMembers())
}

// Values returns the values of members.
func Values(members []v1alpha1.ScimMember) []string {
	values := make([]string, len(members))
	for i := range members {
		values[i] = members[i].Value
	}
	return values
}

// Changed handles an event of the informer.
func (c *Chunks) Changed(before, after any) {
	old, _ := before.(*v1alpha1.ScimMemberChunk)
	changed, _ := after.(*v1alpha1.ScimMemberChunk)
	c.members.Change(old, valuesOf(old), changed, valuesOf(changed))
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil {
		delete(c.indexed, cacheKey(old.Namespace, old.Name))
	}
	if changed != nil {
		c.indexed[cacheKey(changed.Namespace, changed.Name)] = isAscending(changed.Spec.AllMembers())
	}
}

// isIndexed reports whether a chunk is in the index, and whether its members are in ascending order, each once.
func (c *Chunks) isIndexed(key string) (indexed, ascending bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ascending, indexed = c.indexed[key]
	return indexed, ascending
}

// Cached returns a chunk from the cache, nil if the cache or the index does not have it yet. It is shared and must
// not be modified.
func (c *Chunks) Cached(namespace, name string) *v1alpha1.ScimMemberChunk {
	key := cacheKey(namespace, name)
	if indexed, _ := c.isIndexed(key); !indexed {
		return nil
	}
	o, _, err := c.Informer.GetIndexer().GetByKey(key)
	if chunk, ok := o.(*v1alpha1.ScimMemberChunk); ok && err == nil {
		return chunk
	}
	return nil
}

// cacheKey returns the cache key of an object.
func cacheKey(namespace, name string) string { return namespace + "/" + name }

// With returns the names of the cached chunks that contain a member.
func (c *Chunks) With(namespace, value string) []string {
	chunks := c.members.Find(namespace, value)
	names := make([]string, len(chunks))
	for i, chunk := range chunks {
		names[i] = chunk.Name
	}
	return names
}

// Place is where a member is: a chunk, and the position in it.
type Place struct {
	Chunk    string
	Position int
}

// Referring returns the places of a member in the cached chunks for which refers returns true. A nil refers stands for all of them.
func (c *Chunks) Referring(namespace, value string, refers func(*v1alpha1.ScimMember) bool) []Place {
	var places []Place
	for _, chunk := range c.members.Find(namespace, value) {
		_, ascending := c.isIndexed(cacheKey(namespace, chunk.Name))
		p := &part{members: chunk.Spec.AllMembers(), ascending: ascending}
		for _, i := range p.positions(value) {
			if refers == nil || refers(&p.members[i]) {
				places = append(places, Place{chunk.Name, i})
			}
		}
	}
	return places
}

// load returns the chunk of a reference, from the cache or, if the cache does not have it yet, from
// the API server.
func (s *Session) load(reference v1alpha1.ScimMemberChunkReference) (p *part, cached bool) {
	if chunk := s.Chunks.Cached(s.Namespace, reference.Name); chunk != nil {
		_, ascending := s.Chunks.isIndexed(cacheKey(s.Namespace, reference.Name))
		return newPart(reference, &chunk.Spec, ascending), true
	}
	chunk := &v1alpha1.ScimMemberChunk{}
	err := s.Chunks.Kube.Live().Get(s.Context, client.ObjectKey{Namespace: s.Namespace, Name: reference.Name}, chunk)
	switch {
	case apierrors.IsNotFound(err):
		log.FromContext(s.Context).Error(err, "A group refers to a member chunk that does not exist", "namespace", s.Namespace, "chunk", reference.Name)
		return &part{reference: reference, missing: true}, false
	case err != nil:
		s.fail(err)
	}
	return newPart(reference, &chunk.Spec, isAscending(chunk.Spec.AllMembers())), false
}

// writtenChunk is a chunk that was written, and the wait for it.
type writtenChunk struct {
	Expectation
	name            string
	resourceVersion string
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimmemberchunks,verbs=get;list;watch;create;patch

// write writes the new chunks among parts and returns the references to all of them.
func (s *Session) write(parts []*part) ([]v1alpha1.ScimMemberChunkReference, error) {
	references := make([]v1alpha1.ScimMemberChunkReference, len(parts))
	group, ctx := errgroup.WithContext(s.Context)
	group.SetLimit(concurrentWrites)
	for i, p := range parts {
		if references[i] = p.reference; !p.isNew() {
			continue
		}
		name, err := ChunkName(p.members)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		references[i] = v1alpha1.ScimMemberChunkReference{Name: name, Count: int32(len(p.members))} //nolint:gosec // at most chunkSize
		w := &writtenChunk{Expectation: s.Chunks.Expect(s.Namespace, name), name: name}
		s.written = append(s.written, w)
		if version, done := s.ensured[name]; done {
			w.resourceVersion = version
			continue
		}
		group.Go(func() (err error) {
			w.resourceVersion, err = s.Chunks.ensure(ctx, s.Namespace, name, p.members)
			return err
		})
	}
	return references, group.Wait()
}

// ChunkName returns the name of the chunk with these members: a hash of its content. So equal chunks
// are stored once, and a chunk that exists has the expected content.
func ChunkName(members []v1alpha1.ScimMember) (string, error) {
	data, err := json.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("encode members: %w", err)
	}
	sum := sha256.Sum256(data)
	return "m-" + hex.EncodeToString(sum[:16]), nil
}

// ensure creates a chunk and returns its resource version. A chunk that exists may be unreferenced
// and about to be collected. The collector (controllers/scimgroup) deletes a chunk only if it has not
// changed since the collector read it, so a new value of an annotation prevents the deletion.
func (c *Chunks) ensure(ctx context.Context, namespace, name string, members []v1alpha1.ScimMember) (resourceVersion string, err error) {
	const maxAttempts = 5
	for attempt := 1; ; attempt++ {
		chunk := &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		chunk.Spec.SetMembers(members)
		err := c.Kube.Client.Create(ctx, chunk)
		if apierrors.IsAlreadyExists(err) {
			touch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationUsed, c.Clock.Now().UTC().Format(time.RFC3339Nano))
			err = c.Kube.Client.Patch(ctx, chunk, client.RawPatch(types.MergePatchType, []byte(touch)))
			if apierrors.IsNotFound(err) && attempt < maxAttempts {
				continue // collected in the meantime
			}
		}
		if err != nil {
			return "", fmt.Errorf("store members: %w", err)
		}
		if !slices.Equal(chunk.Spec.AllMembers(), members) {
			return "", fmt.Errorf("chunk %q: its members do not match its name, which is a hash of them: it was not written by Quoin", chunk.Name)
		}
		return chunk.ResourceVersion, nil
	}
}
