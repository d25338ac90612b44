package chart_test

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// companions are the values without which some booleans cannot be true.
const companions = "testdata/matrix.yaml"

// combination has the value of each boolean of the chart, by its path.
type combination map[string]bool

// booleans returns the paths of the booleans in values.yaml, sorted.
func booleans(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(prefix string, value any)
	walk = func(prefix string, value any) {
		switch value := value.(type) {
		case bool:
			paths = append(paths, strings.TrimPrefix(prefix, "."))
		case map[string]any:
			for key, item := range value {
				walk(prefix+"."+key, item)
			}
		}
	}
	walk("", values)
	slices.Sort(paths)
	return paths
}

// allTrue returns the combination with every boolean true.
func allTrue(t *testing.T) combination {
	t.Helper()
	c := combination{}
	for _, path := range booleans(t) {
		c[path] = true
	}
	return c
}

// pairs returns combinations in which each two booleans have all four pairs of values.
//
// Column i of a table of 10 rows is the i-th subset of 5 rows that contains the first row. Two such subsets are
// both true in the first row, neither contains the other, and they do not cover all rows.
func pairs(t *testing.T, paths []string) []combination {
	t.Helper()
	const rows = 10
	all := make([]combination, rows)
	for row := range all {
		all[row] = combination{}
	}
	subset := uint(1)
	for _, path := range paths {
		for bits.OnesCount(subset) != rows/2 {
			subset += 2
		}
		if subset >= 1<<rows {
			t.Fatalf("%d booleans need more rows", len(paths))
		}
		for row := range all {
			all[row][path] = subset>>row&1 == 1
		}
		subset += 2
	}
	return all
}

// refusal returns a part of the message with which the chart refuses a combination; empty if it does not.
func (c combination) refusal() string {
	metrics := c["controller.metrics.enabled"] ||
		c["apiserver.enabled"] && c["apiserver.metrics.enabled"] || c["gateway.enabled"] && c["gateway.metrics.enabled"]
	switch {
	case c["gateway.enabled"] && c["gateway.sql.tlsRoute.enabled"] && !c["gateway.sql.enabled"]:
		return "gateway.sql.tlsRoute.enabled requires gateway.sql.enabled"
	case !metrics:
		return "requires metrics.enabled of at least one component"
	}
	return ""
}

// template runs helm template.
func (c combination) template(t *testing.T) (string, error) {
	t.Helper()
	var set []string
	for path, value := range c {
		set = append(set, path+"="+strconv.FormatBool(value))
	}
	slices.Sort(set)
	return helm(t, "template", releaseName, chartFolder, "--namespace", releaseNamespace, "--values", companions, "--set", strings.Join(set, ","))
}

// check renders the combination, which the chart refuses or whose objects are valid.
func (c combination) check(t *testing.T) {
	t.Helper()
	manifest, err := c.template(t)
	if want := c.refusal(); want != "" {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a message with %q, got %v", want, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, object := range parse(t, manifest) {
		id := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		if seen[id] {
			t.Errorf("%s is rendered twice", id)
		}
		seen[id] = true
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		if err != nil {
			continue // not a kind of Kubernetes
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestBooleansInPairs: each two booleans of values.yaml have all combinations of their values, in three groups of
// combinations in which the others differ.
func TestBooleansInPairs(t *testing.T) {
	paths := booleans(t)
	if len(paths) < 40 {
		t.Fatalf("values.yaml has %d booleans only: %v", len(paths), paths)
	}
	backward := slices.Clone(paths)
	slices.Reverse(backward)
	half := slices.Concat(paths[len(paths)/2:], paths[:len(paths)/2])
	for group, order := range [][]string{paths, backward, half} {
		table := pairs(t, order)
		coverPairs(t, paths, table)
		for row, c := range table {
			t.Run(fmt.Sprintf("group %d, row %d", group, row), c.check)
		}
	}
}

// coverPairs fails the test if two booleans do not have each pair of values.
func coverPairs(t *testing.T, paths []string, table []combination) {
	t.Helper()
	for i, a := range paths {
		for _, b := range paths[:i] {
			found := map[[2]bool]bool{}
			for _, c := range table {
				found[[2]bool{c[a], c[b]}] = true
			}
			if len(found) != 4 {
				t.Fatalf("%s and %s have the pairs %v only", a, b, found)
			}
		}
	}
}

// TestEveryBooleanHasAnEffect: with all others true, each changes the rendered objects or is refused.
func TestEveryBooleanHasAnEffect(t *testing.T) {
	everything, err := allTrue(t).template(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range booleans(t) {
		t.Run(path, func(t *testing.T) {
			c := allTrue(t)
			c[path] = false
			c.check(t)
			manifest, err := c.template(t)
			if err == nil && manifest == everything {
				t.Errorf("%s=false renders the same objects as true", path)
			}
		})
	}
}

// TestBooleansAreNotTexts: the schema refuses texts for each boolean, and names it, except in the security contexts, which
// are validated by Kubernetes.
func TestBooleansAreNotTexts(t *testing.T) {
	var set []string
	paths := slices.DeleteFunc(booleans(t), func(path string) bool { return strings.Contains(path, "ecurityContext.") })
	for _, path := range paths {
		set = append(set, path+"=yes")
	}
	_, err := helm(t, "template", releaseName, chartFolder, "--set-string", strings.Join(set, ","))
	if err == nil {
		t.Fatal("texts are accepted")
	}
	for _, path := range paths {
		if field := "/" + strings.ReplaceAll(path, ".", "/"); !strings.Contains(err.Error(), "'"+field+"'") {
			t.Errorf("the message does not name %s:\n%v", field, err)
		}
	}
}
