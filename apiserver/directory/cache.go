package directory

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// CacheOptions returns the options of a cache for a Directory: it keeps only the fields that a
// Directory reads, because there may be hundreds of thousands of objects. Reads that bypass the cache
// return complete objects.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.ScimUser{}:        {Transform: slim()},
		&v1alpha1.ScimGroup{}:       {Transform: slim()},
		&v1alpha1.ScimMemberChunk{}: {Transform: slimChunk},
	}
}

// slim returns a transform that keeps, of metadata and status, only the time of the last change of the
// spec and whether the object lost its name.
func slim() toolscache.TransformFunc {
	reduce, shared := lastmodified.Transform(), &sharedTexts{texts: map[string]string{}}
	return func(in any) (any, error) {
		out, err := reduce(in)
		o, ok := out.(v1alpha1.Object)
		if !ok || err != nil {
			return out, err
		}
		slimMetadata(o)
		if u, isUser := out.(*v1alpha1.ScimUser); isUser {
			shared.share(u)
		}
		lost, common := claims.IsNameTaken(o), o.Common()
		common.Conditions = nil
		if lost {
			common.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNameTaken}}
		}
		return out, nil
	}
}

// sharedTexts are texts that many users have, such as departments and types of addresses.
type sharedTexts struct {
	mu    sync.Mutex
	texts map[string]string
}

const (
	maxSharedTexts  = 4096
	maxSharedLength = 64 // bytes
)

// share lets users with equal texts, and equal texts of a user, share their memory.
func (s *sharedTexts) share(u *v1alpha1.ScimUser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := &u.Spec
	s.all(&u.Namespace, &spec.Title, &spec.UserType, &spec.PreferredLanguage, &spec.Locale, &spec.Timezone)
	for _, list := range [][]v1alpha1.ScimMultiValue{spec.Emails, spec.PhoneNumbers, spec.IMs, spec.Photos, spec.Entitlements, spec.Roles, spec.X509Certificates} {
		for i := range list {
			s.all(&list[i].Type)
			sameText(&list[i].Value, spec.UserName)
		}
	}
	for i := range spec.Addresses {
		a := &spec.Addresses[i]
		s.all(&a.Type, &a.Locality, &a.Region, &a.Country)
	}
	if e := spec.Enterprise; e != nil {
		s.all(&e.CostCenter, &e.Organization, &e.Division, &e.Department)
	}
	if n := spec.Name; n != nil {
		sameText(&n.Formatted, spec.DisplayName)
	}
}

// all replaces texts by shared ones.
func (s *sharedTexts) all(texts ...*string) {
	for _, text := range texts {
		shared, known := s.texts[*text]
		switch {
		case known:
			*text = shared
		case len(s.texts) < maxSharedTexts && len(*text) <= maxSharedLength:
			*text = strings.Clone(*text)
			s.texts[*text] = *text
		}
	}
}

// sameText replaces a text by an equal one.
func sameText(text *string, other string) {
	if *text == other {
		*text = other
	}
}

// slimChunk is a transform that keeps only the members of a chunk, as a list: they are read more often
// than they are written. The list shares the memory of the string.
func slimChunk(in any) (any, error) {
	if chunk, ok := in.(*v1alpha1.ScimMemberChunk); ok {
		slimMetadata(chunk)
		chunk.ManagedFields = nil
		chunk.Spec = v1alpha1.ScimMemberChunkSpec{Members: chunk.Spec.AllMembers()}
	}
	return in, nil
}

// slimMetadata removes the kind, which the cache knows, and the annotation of kubectl apply.
func slimMetadata(o client.Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
}
