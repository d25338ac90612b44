package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// testReviews checks that the webhook of config/audit sends the changes of users to the Server, and that no other client
// than kube-apiserver can send reviews.
func (c *cluster) testReviews(t *testing.T) {
	for _, object := range c.read(t, "audit") {
		c.create(t, object)
	}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "reviewed"}})
	ada, err := client.New(c.as(t, "ada", "system:masters"), client.Options{Scheme: c.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "reviewed", Name: "k"}}
	// kube-apiserver watches webhook configurations.
	eventually(t, func() bool {
		dry := key.DeepCopy()
		dry.Name = "dry"
		if err := ada.Create(t.Context(), dry, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return len(c.takeReviews()) > 0
	}, func() any { return "the webhook is not called" })
	c.takeReviews()
	if err := ada.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	before := key.DeepCopy()
	key.Spec.DisplayName = "Shown"
	if err := ada.Patch(t.Context(), key, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := ada.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	quoin, err := client.New(c.as(t, "system:serviceaccount:quoin-system:quoin-apiserver", "system:masters"), client.Options{Scheme: c.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := quoin.Create(t.Context(), &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "reviewed", Name: "own"}}); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range c.takeReviews() {
		seen = append(seen, strings.Join([]string{r.UserInfo.Username, string(r.Operation), r.Kind.Kind, r.Namespace, r.Name}, " "))
		if r.Operation == admissionv1.Update && (!strings.Contains(string(r.Object.Raw), "Shown") || strings.Contains(string(r.OldObject.Raw), "Shown")) {
			t.Errorf("before %s, after %s", r.OldObject.Raw, r.Object.Raw)
		}
	}
	want := []string{"ada CREATE ApiKey reviewed k", "ada UPDATE ApiKey reviewed k", "ada DELETE ApiKey reviewed k"}
	// kube-apiserver repeats the review of a deletion if its cached object was stale.
	if !slices.Equal(slices.Compact(seen), want) {
		t.Errorf("reviews %q, want %q", seen, want)
	}
	c.testRepeatedReviews(t, ada)
	c.testForgedReviews(t)
}

// testRepeatedReviews checks that kube-apiserver repeats the review of a change that conflicts with a write of the status, and
// that the audit log has one event for it.
func (c *cluster) testRepeatedReviews(t *testing.T, ada client.Client) {
	t.Helper()
	key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "reviewed", Name: "contended"}}
	if err := ada.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "reviewed"}, Spec: v1alpha1.AccountSpec{
		Namespace: "reviewed", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}}
	accounts := fake.NewClientBuilder().WithScheme(c.admin.Scheme()).WithObjects(account).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, func(client.Object) []string { return []string{"reviewed"} }).Build()
	generation := 100 // that the status has observed
	for name, patch := range map[string]string{
		"spec":        `{"spec":{"displayName":"Contended"}}`,
		"annotations": `{"metadata":{"annotations":{"platform.quoin.dev/reconcile-requested-at":"now"}}}`,
	} {
		log := &eventLog{}
		admission := &recording.Admission{Log: log, Reader: accounts, Live: c.admin, Namespace: "quoin-system"}
		reviews := 0
		c.lock.Lock()
		c.reviewed = func(ctx context.Context, r *admissionv1.AdmissionRequest) {
			if got := admission.Review(ctx, r); len(got.Warnings) > 0 {
				t.Errorf("%s: %q", name, got.Warnings)
			}
			const conflicts = 2
			if reviews++; reviews > conflicts {
				return
			}
			generation++
			status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, generation))
			if err := c.admin.Status().Patch(ctx, key.DeepCopy(), status); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.lock.Unlock()
		if err := ada.Patch(t.Context(), key.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		c.lock.Lock()
		c.reviewed = nil
		c.lock.Unlock()
		if reviews < 3 || len(log.ids) != 1 {
			t.Errorf("%s: %d reviews, %d events; want 3 reviews or more, and 1 event", name, reviews, len(log.ids))
		}
	}
	c.takeReviews()
}

// eventLog has the ids of events.
type eventLog struct {
	recording.Log
	ids map[uuid.UUID]bool
}

// Record implements recording.Log.
func (l *eventLog) Record(_ context.Context, events ...audit.Event) error {
	if l.ids == nil {
		l.ids = map[uuid.UUID]bool{}
	}
	for _, e := range events {
		l.ids[e.ID] = true
	}
	return nil
}

// testForgedReviews checks that only kube-apiserver can send reviews.
func (c *cluster) testForgedReviews(t *testing.T) {
	t.Helper()
	for user, want := range map[string]int{"ada": 403, "eve": 403} {
		code, answer := send(t, c.as(t, user), http.MethodPost, reviewsPath)
		if code != want || len(c.takeReviews()) > 0 {
			t.Errorf("review of %s: %d %s", user, code, answer)
		}
	}
	if code, answer := send(t, c.as(t, "ada", "system:masters"), http.MethodGet, reviewsPath); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", code, answer)
	}
	if code, answer := send(t, c.as(t, "ada", "system:masters"), http.MethodPost, reviewsPath); code != http.StatusBadRequest {
		t.Errorf("a review without a body: %d %s", code, answer)
	}
}

func (c *cluster) takeReviews() []*admissionv1.AdmissionRequest {
	c.lock.Lock()
	defer c.lock.Unlock()
	taken := c.reviews
	c.reviews = nil
	return taken
}
