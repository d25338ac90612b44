package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var _ = Describe("New version for many deployments", func() {
	It("respects --max-concurrent-rollouts, and does not delay manual changes", func(ctx SpecContext) {
		onlySimulated("15 deployments need a bigger machine")
		const allowed, count = 3, 15
		replaceController(ctx, "--leader-elect=false", "--quoin-image="+quoinImage(), fmt.Sprintf("--max-concurrent-rollouts=%d", allowed))
		t := newTenant(ctx, "fleet", "v1.2.2", "v1.2.3")
		for i := range count {
			t.create(ctx, fleetName(i))
		}
		byHand := fleetName(count)
		t.create(ctx, byHand)
		t.awaitAll(ctx, "1.2.3")
		recording := t.record(ctx, &v1alpha1.EnvironmentList{})

		t.push(ctx, "v1.2.4")
		Eventually(t.rolling).WithContext(ctx).Should(Equal(allowed))
		t.patch(ctx, "qdep/"+byHand, `{"releaseChannelVersion": "1.2.2"}`)
		Eventually(t.deployment(byHand)).WithContext(ctx).Should(run("1.2.2"))
		Expect(t.waiting(ctx)).To(BeNumerically(">", 0), "deployments that still wait after the manual change is complete")
		t.patch(ctx, "qdep/"+byHand, `{"releaseChannelVersion": null}`)
		t.awaitAll(ctx, "1.2.4")

		most, waited := 0, 0
		recording.Play(ctx, func(m snapshot) {
			concurrent, environments := 0, m.Environments()
			for name, d := range m.Deployments() {
				env := environments[v1alpha1.ProductionName(name)]
				if waits(d, env) {
					waited++
				}
				if rolls(d, env) && name != byHand {
					concurrent++
				}
			}
			most = max(most, concurrent)
			Expect(concurrent).To(BeNumerically("<=", allowed), "concurrent rollouts")
		})
		Expect(most).To(Equal(allowed))
		Expect(waited).To(BeNumerically(">", 0))
	}, SpecTimeout(4*time.Minute))
})

func fleetName(i int) string { return fmt.Sprintf("fleet-%02d", i+1) }

// awaitAll waits until all deployments of the tenant run a version.
func (t *tenant) awaitAll(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]string, error) {
		return t.namesOf(ctx, func(d *v1alpha1.Deployment) bool {
			matches, err := run(version).Match(d)
			return err != nil || !matches
		})
	}).WithContext(ctx).WithTimeout(2*timeout).Should(BeEmpty(), "do not run "+version)
}

// rolling returns the number of rollouts in progress.
func (t *tenant) rolling(ctx context.Context) (int, error) { return t.count(ctx, rolls) }

// waiting returns the number of deployments that wait for a rollout slot.
func (t *tenant) waiting(ctx context.Context) (int, error) { return t.count(ctx, waits) }

// rolls reports whether production is to run another version than it runs. The status of the deployment shows
// that later.
func rolls(d *v1alpha1.Deployment, production *v1alpha1.Environment) bool {
	return production != nil && production.Spec.Version != d.Status.CurrentVersion
}

// waits reports whether a deployment runs 1.2.3 and has not begun to roll another version out. The status
// shows the reason only after ten seconds.
func waits(d *v1alpha1.Deployment, production *v1alpha1.Environment) bool {
	return d.Status.CurrentVersion == "1.2.3" && !rolls(d, production)
}

// count returns the number of deployments for which a condition is true.
func (t *tenant) count(ctx context.Context, is func(*v1alpha1.Deployment, *v1alpha1.Environment) bool) (int, error) {
	list, environments := &v1alpha1.DeploymentList{}, &v1alpha1.EnvironmentList{}
	if err := errors.Join(t.all(ctx, list), t.all(ctx, environments)); err != nil {
		return 0, err
	}
	production := map[string]*v1alpha1.Environment{}
	for i := range environments.Items {
		production[environments.Items[i].Name] = &environments.Items[i]
	}
	n := 0
	for i := range list.Items {
		if d := &list.Items[i]; is(d, production[v1alpha1.ProductionName(d.Name)]) {
			n++
		}
	}
	return n, nil
}

// namesOf returns the names of the deployments for which a condition is true.
func (t *tenant) namesOf(ctx context.Context, is func(*v1alpha1.Deployment) bool) ([]string, error) {
	list := &v1alpha1.DeploymentList{}
	err := t.all(ctx, list)
	var names []string
	for i := range list.Items {
		if is(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, err
}
