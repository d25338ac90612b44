// Package audit_test attacks the audit log: changes of a tenant's objects that leave no event.
package audit_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// garbageCollector is the user of the garbage collector of Kubernetes.
const garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

// webhook is the backend of the webhook that records changes, with the log of the account acme.
type webhook struct {
	t      *testing.T
	log    *audit.Log
	review *recording.Admission
}

func newWebhook(t *testing.T) *webhook {
	s, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "audit.db"), nil, audit.Owner)
	if err != nil {
		t.Fatal(err)
	}
	log := audit.NewLog(s, audit.Options{})
	t.Cleanup(func() {
		log.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{
		Namespace: "acme", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}}
	sales := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales", Labels: map[string]string{v1alpha1.LabelID: "7"}},
		Spec:       v1alpha1.DeploymentSpec{DisplayName: "Sales"},
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(account, sales).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
	return &webhook{t: t, log: log, review: &recording.Admission{Log: log, Reader: reader, Live: reader, Namespace: "quoin-system"}}
}

// call sends the review of a change of acme/sales as the Kubernetes API server does. An empty object
// does not exist.
func (w *webhook) call(user string, operation admissionv1.Operation, kind, before, after string) {
	w.t.Helper()
	r := &admissionv1.AdmissionRequest{
		UID: "1", Operation: operation, UserInfo: authenticationv1.UserInfo{Username: user}, Namespace: "acme", Name: "sales",
		Kind:      metav1.GroupVersionKind{Group: v1alpha1.Group, Version: "v1alpha1", Kind: kind},
		OldObject: runtime.RawExtension{Raw: []byte(before)}, Object: runtime.RawExtension{Raw: []byte(after)},
	}
	if kind == "Scale" {
		r.Resource.Resource, r.SubResource = "deployments", "scale"
	}
	if answer := w.review.Review(w.t.Context(), r); !answer.Allowed || len(answer.Warnings) > 0 {
		w.t.Errorf("%s of %s by %s: %+v", operation, kind, user, answer)
	}
}

// want checks the events: name, user, deployment id and changes.
func (w *webhook) want(want ...string) {
	w.t.Helper()
	found, err := w.log.Query(w.t.Context(), audit.Filter{Account: "acme"})
	if err != nil {
		w.t.Fatal(err)
	}
	var events []string
	for e, err := range found {
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, fmt.Sprintf("%s by %s [%s] %s", e.Name, e.Actor.ID, e.Deployment.ID, e.Changes))
	}
	if got := strings.Join(events, "\n"); got != strings.Join(want, "\n") {
		w.t.Errorf("events are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// object returns an object acme/sales with metadata and spec.
func object(metadata, spec string) string {
	return `{"metadata":{"namespace":"acme","name":"sales"` + metadata + `},"spec":` + spec + `}`
}

// TestDeletionByTheGarbageCollector: an attacker who may patch a deployment, but not delete it, makes
// it a dependent of an object that does not exist, and the garbage collector deletes it. Both steps
// have an event, and a repeated review of the deletion adds none.
func TestDeletionByTheGarbageCollector(t *testing.T) {
	w := newWebhook(t)
	const owner = `{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"x"}`
	id := `,"labels":{"platform.quoin.dev/id":"7"}`
	w.call("eve", admissionv1.Update, "Deployment", object(id, `{"displayName":"Sales"}`), object(id+`,"ownerReferences":[`+owner+`]`, `{"displayName":"Sales"}`))
	w.call(garbageCollector, admissionv1.Delete, "Deployment", object(id+`,"uid":"u","resourceVersion":"8"`, `{"displayName":"Sales"}`), "")
	w.call(garbageCollector, admissionv1.Delete, "Deployment", object(id+`,"uid":"u","resourceVersion":"9"`, `{"displayName":"Sales"}`), "")
	w.want(
		`Updated deployment configuration by eve [7] {"metadata.ownerReferences":{"after":[`+owner+`]}}`,
		`Deleted deployment by `+garbageCollector+` [7] {"spec.displayName":{"before":"Sales"}}`,
	)
}

// TestScale: an attacker scales a deployment to zero with the subresource, which has no other fields.
func TestScale(t *testing.T) {
	w := newWebhook(t)
	w.call("eve", admissionv1.Update, "Scale", object("", `{"replicas":2}`), object("", `{"replicas":0}`))
	w.want(`Updated deployment configuration by eve [7] {"spec.replicas":{"after":0,"before":2}}`)
}

// TestDerivedObjects: an attacker edits the objects from which Quoin runs and resolves things, instead
// of those that users write: the image of an environment, the members of a group.
func TestDerivedObjects(t *testing.T) {
	w := newWebhook(t)
	w.call("eve", admissionv1.Update, "Environment", object("", `{"deploymentRef":{"name":"sales"},"image":"a"}`), object("", `{"deploymentRef":{"name":"sales"},"image":"b"}`))
	w.call("eve", admissionv1.Update, "ScimGroup", object("", `{"displayName":"S","memberChunks":[{"name":"a"}]}`), object("", `{"displayName":"S"}`))
	w.call("eve", admissionv1.Delete, "ScimMemberChunk", object(`,"uid":"c"`, `{"members":[]}`), "")
	w.call("system:serviceaccount:quoin-system:quoin-controller", admissionv1.Update, "Environment", object("", `{"image":"b"}`), object("", `{"image":"a"}`))
	w.call(garbageCollector, admissionv1.Delete, "Environment", object(`,"uid":"e"`, `{"image":"a"}`), "")
	w.want(
		`Updated environment by eve [7] {"spec.image":{"after":"b","before":"a"}}`,
		`Updated object by eve [] {"spec.memberChunks":{"before":[{"name":"a"}]}}`,
		`Deleted object by eve [] {"spec.members":{"before":[]}}`,
	)
}
