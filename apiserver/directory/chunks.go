package directory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// kindChunk is the kind of chunks among those that are waited for.
const kindChunk = "ScimMemberChunk"

// writers is how many chunks, or groups that a deleted user was in, are written at a time.
const writers = 8

// maxMembers is how many members fit into the chunks of a group.
const maxMembers = maxReferences * maxChunkSize

// maxReferences is how many chunks a group refers to, as the CRD has it.
const maxReferences = 1024

func compareValue(m v1alpha1.ScimMember, value string) int { return cmp.Compare(m.Value, value) }

// followChunks tells those who wait for a chunk.
func (d *Directory) followChunks() (toolscache.ResourceEventHandlerRegistration, error) {
	return d.chunks.AddEventHandler(handler(func(before, after any) { d.seen.happened(kindChunk, before, after) }))
}

// loadPart reads the chunk of a reference: from the cache, and from the API server while the cache
// does not have it yet.
func (v *view) loadPart(reference v1alpha1.ScimMemberChunkReference) (p *part, cached bool) {
	o, ok, err := v.d.chunks.GetIndexer().GetByKey(keyOf(v.namespace, reference.Name))
	if chunk, isChunk := o.(*v1alpha1.ScimMemberChunk); ok && isChunk && err == nil {
		return &part{reference: reference, members: chunk.Spec.Members}, true
	}
	chunk := &v1alpha1.ScimMemberChunk{}
	err = v.d.kube.Live().Get(v.ctx, client.ObjectKey{Namespace: v.namespace, Name: reference.Name}, chunk)
	switch {
	case apierrors.IsNotFound(err):
		log.FromContext(v.ctx).Error(err, "A group refers to members that are not there", "namespace", v.namespace, "chunk", reference.Name)
		return &part{reference: reference, lost: true}, false
	case err != nil:
		v.fail(err)
	}
	return &part{reference: reference, members: chunk.Spec.Members}, false
}

// fail keeps the first error.
func (v *view) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// storeMembers makes the members of a group what a document says. It writes the chunks that are
// new, before the group refers to them. name is the group's.
func storeMembers(v *view, name string, s *v1alpha1.ScimGroupSpec, d schema.Document) error {
	m, ok := d[attributeMembers].(*members)
	if !ok { // of a new group
		m = newMembers(v, s)
		m.Clear()
		list, _ := d[attributeMembers].([]any)
		for _, item := range list {
			element, _ := item.(map[string]any)
			m.Put(element)
		}
	}
	if m.err != nil {
		return m.err
	}
	inPlace, parts := m.layout()
	if v.err != nil { // members that could not be read must not be taken for none
		return v.err
	}
	if len(parts) > maxReferences {
		return scimerror.Bad(scimerror.InvalidValue, "members: a group has at most %d", maxMembers)
	}
	if !slices.EqualFunc(inPlace, s.Members, func(x, y v1alpha1.ScimMember) bool { return x == y }) {
		s.Members = inPlace
	}
	references, err := v.keep(parts)
	if err != nil {
		return err
	}
	if !slices.Equal(references, s.MemberChunks) {
		s.MemberChunks = references
	}
	recording.Detail(v.ctx, name, attributeMembers, m.changes())
	return nil
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimmemberchunks,verbs=get;list;watch;create;patch

// keep writes the chunks that have to be made, and returns the references to all.
func (v *view) keep(parts []*part) ([]v1alpha1.ScimMemberChunkReference, error) {
	references := make([]v1alpha1.ScimMemberChunkReference, len(parts))
	group, ctx := errgroup.WithContext(v.ctx)
	group.SetLimit(writers)
	for i, p := range parts {
		if references[i] = p.reference; !p.isNew() {
			continue
		}
		name, err := chunkName(p.members)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		references[i] = v1alpha1.ScimMemberChunkReference{Name: name, Count: int32(len(p.members))} //nolint:gosec // at most maxChunkSize
		w := v.d.seen.expect(kindChunk, v.namespace, name)
		v.written = append(v.written, w)
		group.Go(func() error { return v.d.keepChunk(ctx, w, p.members) })
	}
	return references, group.Wait()
}

// chunkName names a chunk by its content, so that the same members are never kept twice, and a
// chunk that is there is the one that is wanted.
func chunkName(members []v1alpha1.ScimMember) (string, error) {
	data, err := json.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("encode members: %w", err)
	}
	sum := sha256.Sum256(data)
	return "m-" + hex.EncodeToString(sum[:16]), nil
}

// keepChunk makes sure that a chunk is there and stays. One that nobody refers to may be about to
// be collected: the collector deletes what has not changed since it looked, so an annotation with a
// new value holds it off (controllers/scimgroup).
func (d *Directory) keepChunk(ctx context.Context, w *wait, members []v1alpha1.ScimMember) error {
	const tries = 5
	for try := 1; ; try++ {
		chunk := &v1alpha1.ScimMemberChunk{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.key.namespace, Name: w.key.name},
			Spec:       v1alpha1.ScimMemberChunkSpec{Members: members},
		}
		err := d.kube.Client.Create(ctx, chunk)
		if apierrors.IsAlreadyExists(err) {
			touch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationUsed, d.clock.Now().UTC().Format(time.RFC3339Nano))
			err = d.kube.Client.Patch(ctx, chunk, client.RawPatch(types.MergePatchType, []byte(touch)))
			if apierrors.IsNotFound(err) && try < tries {
				continue // collected just before
			}
		}
		if err != nil {
			return fmt.Errorf("keep members: %w", err)
		}
		if !slices.Equal(chunk.Spec.Members, members) {
			return fmt.Errorf("chunk %q has other members than its name says: somebody has written it by hand", chunk.Name)
		}
		w.written = chunk.ResourceVersion
		return nil
	}
}
