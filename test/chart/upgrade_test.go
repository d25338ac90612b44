package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// previousValues are the default values of the chart before those of this version were added.
const previousValues = "testdata/previous-values.yaml"

// TestValuesOfEarlierReleasesRender: an upgrade with --reuse-values keeps the defaults of the previous release. It gives the
// objects of the new defaults.
func TestValuesOfEarlierReleasesRender(t *testing.T) {
	previous := copyChart(t, "quoin")
	text, err := os.ReadFile(previousValues)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(previous, "values.yaml"), string(text))
	rendered := func(chart string, args ...string) objects {
		return parse(t, mustHelm(t, append([]string{"template", releaseName, chart, "--namespace", releaseNamespace}, args...)...))
	}
	for _, args := range [][]string{nil, monitored, {"--values", "testdata/values/highly-available.yaml"}} {
		if diff := cmp.Diff(withoutHooks(rendered(chartFolder, args...)), withoutHooks(rendered(previous, args...))); diff != "" {
			t.Errorf("%v: -new defaults +previous defaults:\n%s", args, diff)
		}
	}
	// The values of a release before monitoring.
	file := filepath.Join(t.TempDir(), "values.yaml")
	writeFile(t, file, `
controller: {metrics: {enabled: true, readers: [], serviceMonitor: {enabled: false, labels: {}, interval: "", scrapeTimeout: "", authorization: {}, relabelings: [], metricRelabelings: []}, prometheusRule: {enabled: false, labels: {}}}}
apiserver: {metrics: {enabled: false}}
gateway: {metrics: {enabled: false}}
`)
	render(t, "--values", file)
}

// withoutHooks returns the objects that are not hooks of Helm.
func withoutHooks(all objects) objects {
	var found objects
	for _, object := range all {
		if object.GetAnnotations()["helm.sh/hook"] == "" {
			found = append(found, object)
		}
	}
	return found
}

// TestPreviousValuesAreKnown: the schema has all values of the previous chart.
func TestPreviousValuesAreKnown(t *testing.T) {
	mustHelm(t, "lint", "--strict", chartFolder, "--values", previousValues)
}

// deployed returns a Deployment in the cluster.
func (c *cluster) deployed(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: name}, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

// wantStrategy checks the strategy of the controller in the cluster.
func (c *cluster) wantStrategy(t *testing.T, want appsv1.DeploymentStrategyType) {
	t.Helper()
	strategy := c.deployed(t, "quoin-controller").Spec.Strategy
	if strategy.Type != want || (strategy.RollingUpdate != nil) != (want == appsv1.RollingUpdateDeploymentStrategyType) {
		t.Errorf("strategy %+v, want %s", strategy, want)
	}
}

// TestStrategiesReplaceEachOther: RollingUpdate follows Recreate and the reverse, with the client-side apply of Helm and with
// server-side apply, without a patch by hand.
func TestStrategiesReplaceEachOther(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	sequence := []appsv1.DeploymentStrategyType{"RollingUpdate", "Recreate", "RollingUpdate", "Recreate"}
	t.Run("helm", func(t *testing.T) {
		for _, strategy := range sequence {
			c.helm(t, "upgrade", "--install", releaseName, chartFolder, "--set", "controller.strategy.type="+string(strategy))
			c.wantStrategy(t, strategy)
		}
		c.helm(t, "uninstall", releaseName)
	})
	t.Run("server-side", func(t *testing.T) {
		for _, strategy := range sequence {
			c.applyController(t, "controller.strategy.type="+string(strategy))
			c.wantStrategy(t, strategy)
		}
	})
	// A Deployment whose strategy was not set has the defaults of Kubernetes.
	t.Run("helm, from defaults", func(t *testing.T) {
		old := copyChart(t, "quoin")
		withoutStrategy(t, old)
		c.kubectl(t, "delete", "deployment", "--all", "--namespace", releaseNamespace)
		c.helm(t, "install", releaseName, old, "--take-ownership")
		c.wantStrategy(t, "RollingUpdate")
		c.helm(t, "upgrade", releaseName, chartFolder, "--set", "controller.strategy.type=Recreate")
		c.wantStrategy(t, "Recreate")
	})
}

// applyController applies the Deployment of the controller with server-side apply, as Flux and Argo CD do.
func (c *cluster) applyController(t *testing.T, set string) {
	t.Helper()
	object := render(t, "--set", set).of("controller").ofKind("Deployment")[0]
	file := filepath.Join(t.TempDir(), "deployment.yaml")
	writeFile(t, file, mustYAML(t, object.Object))
	c.kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
}

// withoutStrategy removes the strategy from a chart.
func withoutStrategy(t *testing.T, chart string) {
	t.Helper()
	path := filepath.Join(chart, "templates", "components", "deployment.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "  strategy:\n")
	_, after, closed := strings.Cut(after, "nindent 4 }}\n")
	if !found || !closed {
		t.Fatal("the template has no strategy")
	}
	writeFile(t, path, before+after)
}

// TestSelectorsAreNotChanged: values that would change the selector of a Deployment are rejected with what to do, before
// anything is changed.
func TestSelectorsAreNotChanged(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	c.helm(t, "install", releaseName, chartFolder)
	for _, set := range []string{"nameOverride=quo", "kustomizeSelectors=true"} {
		_, err := helm(t, "upgrade", releaseName, chartFolder, "--set", set, "--kubeconfig", c.kubeconfig, "--namespace", releaseNamespace)
		if err == nil || !strings.Contains(err.Error(), "Deployment quoin-system/quoin-controller selects pods with") || !strings.Contains(err.Error(), "restore nameOverride") {
			t.Errorf("%s: %v", set, err)
		}
	}
	c.helm(t, "upgrade", releaseName, chartFolder, "--set", "image.tag=v9,commonLabels.team=data")
}
