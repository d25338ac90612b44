package claims

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// domain returns the domain of the test. Hosts are unique in the cluster.
func (r *fixture) domain() string { return r.namespace + ".example.org" }

// request creates a deployment that requests the domain.
func (r *fixture) request(name string) *v1alpha1.Deployment {
	r.t.Helper()
	d := r.create(name, "")
	r.setDomain(d, v1alpha1.Host(r.domain()))
	return d
}

// setDomain changes the domain that a deployment requests.
func (r *fixture) setDomain(d *v1alpha1.Deployment, host v1alpha1.Host) {
	r.t.Helper()
	d.Spec.DataAPI = &v1alpha1.DataAPI{CustomDomain: host}
	if err := r.api.Update(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
}

// show writes the domain to the status of a deployment, on condition that it has not changed since d was read.
func (r *fixture) show(d *v1alpha1.Deployment, host string) error {
	shown := d.DeepCopy()
	shown.Status.CustomDomain = host
	err := r.api.Status().Patch(r.t.Context(), shown, client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		*d = *shown
	}
	return err
}

func (r *fixture) hosts() Hosts { return Hosts{Namespace: r.namespace} }

func (r *fixture) acquire(d *v1alpha1.Deployment) error {
	return r.hosts().Acquire(r.t.Context(), r.k, d, r.domain())
}

// domainHolder returns the name of the holder of the domain.
func (r *fixture) domainHolder() string {
	r.t.Helper()
	claim := &v1alpha1.Claim{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: r.hosts().Name(r.domain())}, claim); err != nil {
		r.t.Fatal(err)
	}
	return claim.Spec.Holder.Name
}

func TestAHostHasOneHolder(t *testing.T) {
	r := newFixture(t)
	first, second := r.request("first"), r.request("second")
	if err := r.acquire(first); err != nil {
		t.Fatal(err)
	}
	// The holder was killed before it showed the domain: it requests it, so it keeps it.
	if err := r.acquire(second); !errors.Is(err, ErrHostTaken) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(r.acquire(first), r.show(first, r.domain())); err != nil {
		t.Fatal(err)
	}
	// It still shows the domain although it does not request it: the gateway may not know yet.
	r.setDomain(first, "")
	if err := r.acquire(second); !errors.Is(err, ErrHostTaken) {
		t.Errorf("error %v", err)
	}
	// It shows it no longer, and was killed before it released the claim.
	if err := errors.Join(r.show(first, ""), r.acquire(second)); err != nil || r.domainHolder() != "second" {
		t.Errorf("error %v, holder %q", err, r.domainHolder())
	}
}

// TestTakeoverAndReturn: the first holder removes the domain and adds it again while another one takes it
// over. Whichever writes the claim first has it.
func TestTakeoverAndReturn(t *testing.T) {
	for _, name := range []string{"the takeover is first", "the return is first"} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			first, second := r.request("first"), r.request("second")
			if err := r.acquire(first); err != nil {
				t.Fatal(err)
			}
			r.setDomain(first, "")
			// The second one has decided, on this claim, to take it over.
			stale := &v1alpha1.Claim{}
			if err := r.api.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: r.hosts().Name(r.domain())}, stale); err != nil {
				t.Fatal(err)
			}
			takeOver := func() error {
				claim := r.hosts().claim(second, r.domain())
				claim.ResourceVersion = stale.ResourceVersion
				return r.api.Update(t.Context(), claim)
			}
			if name == "the takeover is first" {
				if err := takeOver(); err != nil {
					t.Fatal(err)
				}
				r.setDomain(first, v1alpha1.Host(r.domain()))
				if err := r.acquire(first); !errors.Is(err, ErrHostTaken) {
					t.Errorf("the first holder: %v", err)
				}
				return
			}
			r.setDomain(first, v1alpha1.Host(r.domain()))
			if err := errors.Join(r.acquire(first), r.show(first, r.domain())); err != nil {
				t.Fatal(err)
			}
			if err := takeOver(); !apierrors.IsConflict(err) {
				t.Errorf("the takeover: %v", err)
			}
		})
	}
}

// TestDeletedClaimOfAHost: a claim that was deleted with kubectl does not free the host.
func TestDeletedClaimOfAHost(t *testing.T) {
	r := newFixture(t)
	first, second := r.request("first"), r.request("second")
	if err := errors.Join(r.acquire(first), r.show(first, r.domain())); err != nil {
		t.Fatal(err)
	}
	if err := r.api.DeleteAllOf(t.Context(), &v1alpha1.Claim{}, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	if err := r.acquire(second); !errors.Is(err, ErrHostTaken) {
		t.Errorf("error %v", err)
	}
	if err := r.acquire(first); err != nil || r.domainHolder() != "first" {
		t.Errorf("error %v, holder %q", err, r.domainHolder())
	}
}

// TestHostsAreReleased by Release, ReleaseDeleted and the sweep, and those in use are not.
func TestHostsAreReleased(t *testing.T) {
	for name, release := range map[string]func(r *fixture, d *v1alpha1.Deployment) error{
		"Release": func(r *fixture, d *v1alpha1.Deployment) error { return r.hosts().Release(r.t.Context(), r.k, d) },
		"ReleaseDeleted": func(r *fixture, d *v1alpha1.Deployment) error {
			return r.hosts().ReleaseDeleted(r.t.Context(), r.k, client.ObjectKeyFromObject(d))
		},
		"sweep": func(r *fixture, _ *v1alpha1.Deployment) error {
			return NewSweep(kube.NewClient(r.api, r.api, "quoin-test"), clocktesting.NewFakeClock(time.Now().Add(time.Hour)), r.hosts()).Once(r.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			d, other := r.request("first"), r.create("other", "")
			r.setDomain(other, "other-"+v1alpha1.Host(r.domain()))
			if err := errors.Join(r.acquire(d), r.hosts().Acquire(t.Context(), r.k, other, "other-"+r.domain()), r.api.Delete(t.Context(), d), release(r, d)); err != nil {
				t.Fatal(err)
			}
			list := &v1alpha1.ClaimList{}
			if err := r.api.List(t.Context(), list, client.InNamespace(r.namespace)); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].Spec.Holder.Name != "other" {
				t.Errorf("claims %+v", list.Items)
			}
		})
	}
}
