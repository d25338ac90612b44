package deployment

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
)

// acme returns an account that has allocated 5 IDs of each kind.
func acme() *v1alpha1.Account {
	return &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Annotations: map[string]string{v1alpha1.AnnotationIssuedIDs: "deployments=5,environments=5"}},
		Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
	}
}

// carrying returns a deployment that carries IDs.
func carrying(name, id, environment string) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, UID: types.UID(name), Generation: 1, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "none", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
	}
	if id != "" {
		d.Labels[v1alpha1.LabelID] = id
	}
	if environment != "" {
		d.Annotations[v1alpha1.AnnotationEnvironmentID] = environment
	}
	return d
}

// reconcileOnce reconciles a deployment and returns it.
func reconcileOnce(t *testing.T, api client.WithWatch, name string) *v1alpha1.Deployment {
	t.Helper()
	k := kube.NewClient(api, api, "quoin-test")
	clk := clocktesting.NewFakePassiveClock(time.Now())
	r := New(k, events.NewFakeRecorder(10), clk, Options{IDs: ids.New(k), Fleet: NewFleet(api, 1), Remotes: NewRemotes(api, nil, clk)})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf(name)}); err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.Deployment{}
	if err := api.Get(t.Context(), keyOf(name), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestIDsAreAllocatedOrKept: a deployment keeps the valid IDs that it carries.
func TestIDsAreAllocatedOrKept(t *testing.T) {
	cases := map[string]struct {
		id, environment         string
		wantID, wantEnvironment string
		ledger                  string
	}{
		"new":             {"", "", "6", "6", "deployments=6,environments=6"},
		"restored":        {"9", "4", "9", "4", "deployments=9,environments=5"},
		"restored partly": {"", "8", "6", "8", "deployments=6,environments=8"},
		"not a number":    {"abc", "x y", "6", "6", "deployments=6,environments=6"},
		"not canonical":   {"007", "+7", "6", "6", "deployments=6,environments=6"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, acme(), carrying("sales", tc.id, tc.environment))
			for range 2 {
				d := reconcileOnce(t, api, "sales")
				id, environment := d.Labels[v1alpha1.LabelID], d.Annotations[v1alpha1.AnnotationEnvironmentID]
				if id != tc.wantID || environment != tc.wantEnvironment || d.Status.ID != tc.wantID {
					t.Errorf("label %q, environment %q, status %q; want %q and %q", id, environment, d.Status.ID, tc.wantID, tc.wantEnvironment)
				}
			}
			if got := apitest.IssuedIDs(t, api, "acme"); got != tc.ledger {
				t.Errorf("issued IDs are %q, want %q", got, tc.ledger)
			}
		})
	}
}

func TestCopiedIDsAreRejected(t *testing.T) {
	first := carrying("sales", "3", "3")
	first.Status.ID = "3"
	for name, copied := range map[string]*v1alpha1.Deployment{
		"both": carrying("copy", "3", "3"), "label": carrying("copy", "3", ""), "annotation": carrying("copy", "", "3"),
	} {
		t.Run(name, func(t *testing.T) { expectCopyRejected(t, newAPI(t, acme(), first.DeepCopy(), copied)) })
	}
}

func expectCopyRejected(t *testing.T, api client.WithWatch) {
	t.Helper()
	d := reconcileOnce(t, api, "copy")
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(c.Message, `has an ID of deployment "sales"; remove both`) || d.Status.ID != "" {
		t.Errorf("condition %+v, ID %q", c, d.Status.ID)
	}
}

// TestMissingStoreImageIsNamed: a Dedicated deployment needs an image of the store. The message says
// what is missing: the channel's repository, or the tag of one version in it.
func TestMissingStoreImageIsNamed(t *testing.T) {
	cases := map[string]struct {
		repository, image string
		want              string
	}{
		"no repository": {"", "", `spec.size: Dedicated needs a store image; set spec.storeImageRepository of release channel "latest"`},
		"no tag": {"registry/store", "", `spec.size: Dedicated needs a store image, and no image registry/store:v1.2.4 is known; ` +
			`push the tag, or choose a version that has one`},
		"both": {"registry/store", "registry/store:v1.2.4@sha256:1", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := carrying("sales", "", "")
			d.Spec.ReleaseChannel, d.Spec.Size = "latest", v1alpha1.SizeDedicated
			c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "latest"}}
			c.Spec.ImageRepository, c.Spec.StoreImageRepository = "registry/cube", tc.repository
			c.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.4", Image: "registry/cube:v1.2.4", StoreImage: tc.image}}
			got := reconcileOnce(t, newAPI(t, acme(), d, c), "sales")
			stalled := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStalled)
			if tc.want == "" {
				if stalled != nil {
					t.Errorf("stalled: %+v", stalled)
				}
				return
			}
			if stalled == nil || stalled.Reason != "StoreImageMissing" || stalled.Message != tc.want {
				t.Errorf("stalled: %+v; want %s", stalled, tc.want)
			}
		})
	}
}
