package deployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestWatchesEnqueueAffectedDeployments: a change of another object enqueues the deployments that
// it may affect, and no others.
func TestWatchesEnqueueAffectedDeployments(t *testing.T) {
	deployment := func(namespace, name, channel string, o reconciler.Outcome) *v1alpha1.Deployment {
		d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
		d.Spec.ReleaseChannel = channel
		reconciler.Summarise(d, o)
		return d
	}
	shows := deployment("acme", "shows", "latest", reconciler.Done("x"))
	shows.Status.CustomDomain = "bi.example.com"
	requesting := deployment("other", "requests", "latest", reconciler.Done("x"))
	requesting.Spec.DataAPI = &v1alpha1.DataAPI{CustomDomain: "bi.example.com"}
	api := newAPI(t, shows, requesting,
		deployment("acme", "follows", "stable", reconciler.Done("x")),
		deployment("acme", "pinned", "latest", reconciler.Stalled(v1alpha1.ReasonUnknownVersion, "x")),
		deployment("acme", "nameless", "latest", reconciler.Stalled(v1alpha1.ReasonNameTaken, "x")),
		deployment("other", "nameless", "latest", reconciler.Stalled(v1alpha1.ReasonNameTaken, "x")),
	)
	meta := metav1.ObjectMeta{Namespace: "acme", Name: "x"}
	cases := map[string]struct {
		requests []reconcile.Request
		want     []string
	}{
		"channel":        {ofChannel(api)(t.Context(), &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}), []string{"acme/follows", "acme/pinned"}},
		"unused channel": {ofChannel(api)(t.Context(), &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "none"}}), []string{"acme/pinned"}},
		"claim":          {ofClaim(api)(t.Context(), &v1alpha1.Claim{ObjectMeta: meta}), []string{"acme/nameless"}},
		"claim of a host": {ofClaim(api)(t.Context(), &v1alpha1.Claim{ObjectMeta: meta, Spec: v1alpha1.ClaimSpec{Attribute: claims.AttributeHost, Value: "bi.example.com"}}),
			[]string{"acme/shows", "other/requests"}},
		"branch": {ofBranch(t.Context(), &v1alpha1.Branch{ObjectMeta: meta, Spec: v1alpha1.BranchSpec{DeploymentRef: v1alpha1.LocalReference{Name: "follows"}}}), []string{"acme/follows"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.requests {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfferChanged(t *testing.T) {
	cases := map[string]struct {
		change func(c *v1alpha1.ReleaseChannel)
		want   bool
	}{
		"nothing": {func(*v1alpha1.ReleaseChannel) {}, false},
		"new version": {func(c *v1alpha1.ReleaseChannel) {
			c.Status.Versions = append(c.Status.Versions, v1alpha1.ChannelVersion{Version: "1.2.4"})
		}, true},
		"digest":     {func(c *v1alpha1.ReleaseChannel) { c.Status.Versions[0].Digest = "sha256:2" }, true},
		"repository": {func(c *v1alpha1.ReleaseChannel) { c.Spec.ImageRepository = "x" }, true},
		"conditions": {func(c *v1alpha1.ReleaseChannel) { reconciler.Summarise(c, reconciler.Failing("A", "x", 1)) }, false},
		"interval":   {func(c *v1alpha1.ReleaseChannel) { c.Spec.Interval = &metav1.Duration{Duration: 1} }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.ReleaseChannel{}
			before.Status.Versions = []v1alpha1.ChannelVersion{{Version: "1.2.3", Digest: "sha256:1"}}
			after := before.DeepCopy()
			tc.change(after)
			if got := offerChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("selected: %v", got)
			}
		})
	}
}
