package aggregation

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
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
	c.testForgedReviews(t)
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
