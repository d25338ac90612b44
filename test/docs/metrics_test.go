package docs_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metricsPage is the page that documents the metrics of all processes.
const metricsPage = "docs/operations/metrics.md"

// processes are the values of the variable process in names of metrics.
var processes = []string{"apiserver", "gateway"}

// constructors of Prometheus and promauto return metrics of these types. NewDesc describes a metric that is collected from
// state.
var constructors = map[string]string{
	"NewCounter": "counter", "NewCounterVec": "counter", "NewCounterFunc": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge", "NewGaugeFunc": "gauge",
	"NewHistogram": "histogram", "NewHistogramVec": "histogram", "NewDesc": "gauge",
}

// metric describes a metric: its type and labels.
func metric(kind string, labels []string) string {
	return strings.TrimSpace(kind + " " + strings.Join(labels, ","))
}

// declaredMetrics returns the metrics that the processes register, from their source.
func declaredMetrics(t *testing.T) map[string]string {
	t.Helper()
	declared := map[string]string{}
	inspectSource(t, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		if function, ok := call.Fun.(*ast.SelectorExpr); ok && constructors[function.Sel.Name] != "" && len(call.Args) > 0 {
			for _, name := range metricNames(call.Args[0]) {
				kind := constructors[function.Sel.Name]
				if function.Sel.Name == "NewDesc" && strings.HasSuffix(name, "_total") {
					kind = "counter"
				}
				declared[name] = metric(kind, labelNames(call.Args))
			}
		}
	}, "apiserver", "controllers", "gateway", "internal", "cmd")
	return declared
}

// metricNames returns the names of a metric, one for each process that has it: from its options, or as an expression.
func metricNames(of ast.Expr) []string {
	if options, ok := of.(*ast.CompositeLit); ok {
		for _, element := range options.Elts {
			if field, ok := element.(*ast.KeyValueExpr); ok && fmt.Sprint(field.Key) == "Name" {
				return metricNames(field.Value)
			}
		}
		return nil
	}
	var names []string
	for _, process := range processes {
		if name, ok := constant(of, process); ok && strings.HasPrefix(name, "quoin_") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// constant returns the value of a concatenation of strings, and of the variable process.
func constant(e ast.Expr, process string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.Ident:
		return process, e.Name == "process"
	case *ast.BinaryExpr:
		x, ok := constant(e.X, process)
		y, both := constant(e.Y, process)
		return x + y, ok && both
	}
	return "", false
}

// labelNames returns the labels among the arguments of a constructor.
func labelNames(arguments []ast.Expr) []string {
	var labels []string
	for _, a := range arguments {
		list, ok := a.(*ast.CompositeLit)
		if !ok {
			continue
		}
		if _, isList := list.Type.(*ast.ArrayType); !isList {
			continue
		}
		for _, element := range list.Elts {
			if label, ok := constant(element, ""); ok {
				labels = append(labels, label)
			}
		}
	}
	return labels
}

var metricRow = regexp.MustCompile("(?m)^\\| `(quoin_[a-z_]+)` \\| ([^|]*) \\| ([^|]*) ?\\|")

// documentedMetrics returns the metrics of the tables of the page. A cell of labels has their names, followed by a colon if it
// has values too; "the same" are those of the previous row.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	var labels []string
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		if cell := strings.TrimSpace(row[3]); cell != "the same" {
			names, _, _ := strings.Cut(cell, ":")
			labels = nil
			for i, part := range strings.Split(names, "`") {
				if i%2 == 1 {
					labels = append(labels, part)
				}
			}
		}
		kind, _, _ := strings.Cut(strings.TrimSpace(row[2]), ",")
		documented[row[1]] = metric(kind, labels)
	}
	return documented
}

// TestMetrics checks that the page lists the metrics of all processes with their types and labels, and no others.
func TestMetrics(t *testing.T) {
	declared, documented := declaredMetrics(t), documentedMetrics(t)
	if len(declared) < 20 {
		t.Errorf("only %d metrics were found in the source", len(declared))
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if documented[name] != declared[name] {
			t.Errorf("%s is a %q, and %q in %s", name, declared[name], documented[name], metricsPage)
		}
		if isTotal := strings.HasSuffix(name, "_total"); isTotal != strings.HasPrefix(declared[name], "counter") {
			t.Errorf("%s is a %s: counters, and no others, end with _total", name, declared[name])
		}
	}
	for name := range documented {
		if declared[name] == "" {
			t.Errorf("%s in %s does not exist", name, metricsPage)
		}
	}
}

// queried are the names of Quoin's metrics in queries.
var queried = regexp.MustCompile(`\bquoin_[a-z_]+`)

// TestQueriesUseMetrics checks that alerts, the dashboard and the page's queries use metrics that exist.
func TestQueriesUseMetrics(t *testing.T) {
	declared := declaredMetrics(t)
	for _, file := range []string{"config/prometheus/rules.yaml", "config/grafana/quoin.json", metricsPage, "docs/operations/alerts.md"} {
		names := queried.FindAllString(readFile(t, file), -1)
		for _, name := range names {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if trimmed := strings.TrimSuffix(name, suffix); strings.HasPrefix(declared[trimmed], "histogram") {
					base = trimmed
				}
			}
			if declared[base] == "" {
				t.Errorf("%s: %s does not exist", file, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s: no metrics", file)
		}
	}
}
