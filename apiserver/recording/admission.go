package recording

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Admission records changes that are made through the Kubernetes API, such as with kubectl or from
// Git. It is the backend of a validating webhook and allows every request.
type Admission struct {
	// Log stores the events.
	Log Log
	// Reader reads Accounts. It must have the index tenant.IndexNamespace.
	Reader client.Reader
	// Live reads the Kubernetes API server.
	Live client.Reader
	// Namespace of Quoin. Changes by its ServiceAccounts are not recorded here: they are recorded by
	// Client or follow from a recorded change.
	Namespace string
}

// collectors are the ServiceAccounts of the controllers that delete dependent objects. Their deletions
// of derived objects are not recorded. All others are: owner references, which any client may set,
// decide what the garbage collector deletes.
var collectors = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
}

// verbs are the recorded operations.
var verbs = map[admissionv1.Operation]verb{admissionv1.Create: create, admissionv1.Update: update, admissionv1.Delete: remove}

// Review records the change of a request and allows it.
func (a *Admission) Review(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	allowed := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if err := a.record(ctx, request); err != nil {
		log.FromContext(ctx).Error(err, "Failed to record a change through the Kubernetes API in the audit log", "user", request.UserInfo.Username,
			"operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		allowed.Warnings = []string{"quoin: this change was not recorded in the audit log, which is unavailable"}
	}
	return allowed
}

func (a *Admission) record(ctx context.Context, request *admissionv1.AdmissionRequest) error {
	k, v := a.subject(request)
	if k == nil || request.DryRun != nil && *request.DryRun {
		return nil
	}
	account, err := a.accountOf(ctx, request)
	if err != nil || account == nil {
		return err
	}
	if a.Log == nil {
		return errNoLog
	}
	documents, err := a.documents(ctx, request)
	if err != nil {
		return err
	}
	changes, err := k.difference(documents)
	if err != nil {
		return err
	}
	changed := documents[0]
	if v == update {
		if len(changes) == 0 {
			return nil // only metadata that is not recorded changed
		}
		if changed, err = a.current(ctx, k, request, documents[0]); err != nil || changed == nil {
			return err
		}
	}
	e := k.event(ctx, a.Reader, v, audit.SourceKubernetes, documents)
	e.Account, e.Outcome, e.RequestID = account.Name, audit.Succeeded, string(request.UID)
	e.Actor = audit.Actor{Kind: audit.ActorKubernetes, ID: request.UserInfo.Username}
	if e.Changes, err = encode(changes); err != nil {
		return err
	}
	e.ID = identity(request, documents, changed.version(changes), e.Changes)
	return a.Log.Record(ctx, e)
}

// current returns the object that an update changes, as the Kubernetes API server has it; nil if that is not the object of
// the review. Such an update cannot succeed: the Kubernetes API server reviews an update on the object in its cache first,
// and again on the current one if there was a conflict.
func (a *Admission) current(ctx context.Context, k *recordedKind, request *admissionv1.AdmissionRequest, before *document) (*document, error) {
	if before == nil || before.ResourceVersion == "" {
		return before, nil
	}
	live := &document{}
	live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.Name()))
	err := a.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, &live.PartialObjectMetadata)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the object of a change: %w", err)
	}
	if live.UID != before.UID || live.ResourceVersion != before.ResourceVersion {
		return nil, nil
	}
	return live, nil
}

// subject returns the kind and the verb of a change, and nil if it is not recorded here: it is recorded
// elsewhere or follows from a recorded change.
func (a *Admission) subject(request *admissionv1.AdmissionRequest) (*recordedKind, verb) {
	name := request.Kind.Kind
	if request.SubResource == scale {
		name = kindOfPlural(request.Resource.Resource)
	}
	k := recordedKindOf(name)
	v, known := verbs[request.Operation]
	user := request.UserInfo.Username
	switch {
	case k == nil || !known:
		return nil, v
	case request.SubResource != "" && request.SubResource != scale:
		return nil, v
	case strings.HasPrefix(user, "system:serviceaccount:"+a.Namespace+":"):
		return nil, v
	case k.Derived && slices.Contains(collectors, user):
		return nil, v
	}
	return k, v
}

// scale is the subresource with the number of replicas.
const scale = "scale"

// documents returns the object before and after a change. For the subresource scale, whose objects
// have no other fields than the replicas, it reads the labels and the display name.
func (a *Admission) documents(ctx context.Context, request *admissionv1.AdmissionRequest) (beforeAndAfter, error) {
	documents, err := parse(request.OldObject.Raw, request.Object.Raw)
	if err != nil || request.SubResource != scale {
		return documents, err
	}
	d := &v1alpha1.Deployment{}
	if err := a.Reader.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, d); err != nil {
		return documents, client.IgnoreNotFound(err)
	}
	for _, each := range documents {
		if each != nil && each.Spec != nil {
			each.Labels = d.Labels
			each.Spec["displayName"] = d.Spec.DisplayName
		}
	}
	return documents, nil
}

// accountOf returns the account of an object, nil if its audit log is disabled. For a change of an
// Account it is sufficient that the log is enabled before or after: disabling it is an event.
func (a *Admission) accountOf(ctx context.Context, request *admissionv1.AdmissionRequest) (*v1alpha1.Account, error) {
	if request.Kind.Kind != "Account" {
		account, err := tenant.Of(ctx, a.Reader, request.Namespace)
		if err != nil || !IsOn(account) {
			return nil, ignoreNoAccount(err)
		}
		return account, nil
	}
	for _, raw := range [][]byte{request.Object.Raw, request.OldObject.Raw} {
		account := &v1alpha1.Account{}
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, account); err != nil {
			return nil, err
		}
		if IsOn(account) {
			return account, nil
		}
	}
	return nil, nil
}

// kindOfPlural returns the name of the kind with a plural, empty if there is none.
func kindOfPlural(plural string) string {
	for _, kind := range v1alpha1.Kinds {
		if kind.Plural == plural {
			return kind.Name()
		}
	}
	return ""
}

func ignoreNoAccount(err error) error {
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil
	}
	return err
}

// creationOf returns the id of the event of the creation of an object through the Kubernetes API.
func creationOf(uid types.UID) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "creation of %s", uid))
}

// identity returns the id of an event. It is the same for reviews of the same change: the Kubernetes
// API server repeats them when it retries an update or a deletion after a conflict. An object is
// created once, and deleted once, whatever its version.
func identity(request *admissionv1.AdmissionRequest, documents beforeAndAfter, version string, changes []byte) uuid.UUID {
	before, after := documents[0], documents[1]
	switch {
	case before == nil && after != nil && after.UID != "":
		return creationOf(after.UID)
	case before != nil && request.Operation == admissionv1.Delete:
		version, changes = string(before.UID), nil
	}
	sum := sha256.Sum256(changes)
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %s/%s %s %s %x", request.Operation, request.Kind.Kind,
		request.Namespace, request.Name, version, request.UserInfo.Username, sum))
}

// version returns the version of an object before some changes. Writes of the status do not change it, because the
// Kubernetes API server repeats the review of a change that conflicts with one. Every change of the spec has another
// generation; for changes of metadata, the version has the managers of all fields but those of the status, with their times.
func (d *document) version(changes map[string]any) string {
	if d == nil {
		return ""
	}
	version := fmt.Sprint(d.UID, " ", d.Generation)
	for path := range changes {
		if strings.HasPrefix(path, "metadata") {
			managers, _ := json.Marshal(slices.DeleteFunc(slices.Clone(d.ManagedFields), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" }))
			return fmt.Sprintf("%s %x", version, sha256.Sum256(managers))
		}
	}
	return version
}
