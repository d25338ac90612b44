package backup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
)

// successor is the restored object of one in the archive.
type successor struct {
	uid types.UID
	// before is the generation in the archive, now that of the restored object.
	before, now int64
}

// mapping has the restored objects by the UIDs in the archive.
type mapping struct {
	mu    sync.Mutex
	byUID map[types.UID]successor
	// deployments are the restored Deployments by namespace and name.
	deployments map[client.ObjectKey]successor
}

func newMapping() *mapping {
	return &mapping{byUID: map[types.UID]successor{}, deployments: map[client.ObjectKey]successor{}}
}

// add records the restored object of one in the archive.
func (m *mapping) add(archived, live *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := successor{live.GetUID(), archived.GetGeneration(), live.GetGeneration()}
	m.byUID[archived.GetUID()] = s
	if archived.GetKind() == "Deployment" {
		m.deployments[client.ObjectKeyFromObject(archived)] = s
	}
}

func (m *mapping) get(uid types.UID) (successor, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.byUID[uid]
	return s, ok
}

// uid returns the UID of the restored object, or the same one if there is none.
func (m *mapping) uid(text string) string {
	if s, ok := m.get(types.UID(text)); ok {
		return string(s.uid)
	}
	return text
}

// generation returns the generation that corresponds to one that an object recorded: that of the
// restored object if it was the current one, else 0.
func (s successor) generation(recorded int64) int64 {
	if recorded == s.before {
		return s.now
	}
	return 0
}

// restorable returns the object as it is created, and its status and the fields of its managers, which
// are written afterwards. skip is not empty if it cannot be restored: its owner is not in the archive.
func (m *mapping) restorable(archived *unstructured.Unstructured, ledgers map[string]string) (obj *unstructured.Unstructured, status map[string]any, skip string, err error) {
	obj = archived.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	if skip = m.mapOwners(obj); skip != "" {
		return nil, nil, skip, nil
	}
	self := successor{before: archived.GetGeneration(), now: 1}
	mapAnnotations(obj, self)
	switch obj.GetKind() {
	case "Account":
		err = raiseLedger(obj, ledgers[obj.GetName()])
	case "Claim":
		skip, err = m.mapHolder(obj)
	case "Environment":
		err = m.mapDeploymentGeneration(obj)
	}
	if err != nil || skip != "" {
		return nil, nil, skip, err
	}
	status, _, err = unstructured.NestedMap(obj.Object, "status")
	delete(obj.Object, "status")
	return obj, restorableStatus(status, self), "", err
}

// mapOwners replaces the UIDs of owners. Owners of other API groups are not restored: references to
// them are removed, because garbage collection would delete the object.
func (m *mapping) mapOwners(obj *unstructured.Unstructured) (skip string) {
	owners := obj.GetOwnerReferences()
	if len(owners) == 0 {
		return ""
	}
	var kept []metav1.OwnerReference
	for _, owner := range owners {
		s, found := m.get(owner.UID)
		group, err := schema.ParseGroupVersion(owner.APIVersion)
		switch {
		case found:
			owner.UID = s.uid
			kept = append(kept, owner)
		case err == nil && group.Group == v1alpha1.Group:
			return fmt.Sprintf("its owner %s %q is not in the archive", owner.Kind, owner.Name)
		}
	}
	obj.SetOwnerReferences(kept)
	if len(kept) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "ownerReferences")
	}
	return ""
}

// mapAnnotations adapts the annotation with the generation that was written over SCIM last.
func mapAnnotations(obj *unstructured.Unstructured, self successor) {
	annotations := maps.Clone(obj.GetAnnotations())
	number, at, found := strings.Cut(annotations[v1alpha1.AnnotationModified], " ")
	if !found {
		return
	}
	var generation int64
	if number == fmt.Sprint(self.before) {
		generation = self.now
	}
	annotations[v1alpha1.AnnotationModified] = fmt.Sprintf("%d %s", generation, at)
	obj.SetAnnotations(annotations)
}

// raiseLedger records the ids that were issued after the account was read.
func raiseLedger(account *unstructured.Unstructured, later string) error {
	annotations := maps.Clone(account.GetAnnotations())
	merged, err := ids.Merge(annotations[v1alpha1.AnnotationIssuedIDs], later)
	if err != nil || merged == "" {
		return err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationIssuedIDs] = merged
	account.SetAnnotations(annotations)
	return nil
}

// mapHolder adapts the holder of a claim.
func (m *mapping) mapHolder(claim *unstructured.Unstructured) (skip string, err error) {
	path := []string{"spec", "holder"}
	uid, _, err := unstructured.NestedString(claim.Object, append(path, "uid")...)
	if err != nil || uid == "" {
		return "", err
	}
	s, found := m.get(types.UID(uid))
	// The claim on the name of a deprovisioned user outlives the user.
	attribute, _, err := unstructured.NestedString(claim.Object, "spec", "attribute")
	if !found && attribute == "ScimUser.deprovisioned" || err != nil {
		return "", err
	}
	if !found {
		return "its holder is not in the archive", nil
	}
	if err := unstructured.SetNestedField(claim.Object, string(s.uid), append(path, "uid")...); err != nil {
		return "", err
	}
	return "", mapGeneration(claim.Object, s, append(path, "generation")...)
}

// mapDeploymentGeneration adapts the generation of the Deployment that an Environment waits for.
func (m *mapping) mapDeploymentGeneration(env *unstructured.Unstructured) error {
	name, _, err := unstructured.NestedString(env.Object, "spec", "deploymentRef", "name")
	if err != nil {
		return err
	}
	m.mu.Lock()
	of := m.deployments[client.ObjectKey{Namespace: env.GetNamespace(), Name: name}]
	m.mu.Unlock()
	return mapGeneration(env.Object, of, "spec", "deploymentGeneration")
}

// mapGeneration adapts a field that has a generation of an object, if it is set.
func mapGeneration(object map[string]any, of successor, path ...string) error {
	recorded, found, err := unstructured.NestedInt64(object, path...)
	if err != nil || !found {
		return err
	}
	return unstructured.SetNestedField(object, of.generation(recorded), path...)
}

// restorableStatus returns the status without what describes the other cluster: the conditions, and
// which generation they are of. The controllers report both again.
func restorableStatus(status map[string]any, self successor) map[string]any {
	if len(status) == 0 {
		return nil
	}
	delete(status, "conditions")
	if _, found := status["observedGeneration"]; found {
		status["observedGeneration"] = int64(-1)
	}
	for _, failure := range []string{"failed", "failedModel"} {
		_ = mapGeneration(status, self, failure, "generation") // absent, or a number by its schema
	}
	return status
}

// isPart reports whether all that is wanted is in an object: the API server may have added defaults.
func isPart(wanted, live any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		for key, value := range w {
			if !ok || !isPart(value, l[key]) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		return ok && slices.EqualFunc(w, l, isPart)
	case nil:
		return live == nil
	}
	return fmt.Sprint(wanted) == fmt.Sprint(live)
}
