package monitoring_test

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metricsPage documents all metrics. A test of test/docs compares it with the source, so it has every metric.
const metricsPage = "../../docs/operations/metrics.md"

// processes are the processes of Quoin, as in the names of their jobs.
var processes = []string{"controller", "apiserver", "gateway"}

// sections are the sections of the page with tables of metrics, and the processes that export these.
var sections = map[string][]string{
	"All processes": processes, "The controller": {"controller"}, "The API server": {"apiserver"}, "The gateway": {"gateway"},
}

var documentedMetric = regexp.MustCompile("^\\| `(quoin_[a-z_]+)` \\|")

// owners returns the processes that export each metric, by the section of the page.
func owners(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	owners, section := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(heading)
		}
		row := documentedMetric.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		if sections[section] == nil {
			t.Fatalf("%s: the section %q of %s has no process", metricsPage, section, row[1])
		}
		owners[row[1]] = append(owners[row[1]], sections[section]...)
	}
	return owners
}

// TestOwnersOfMetrics: the page has a process for each metric, and each process has metrics of its own.
func TestOwnersOfMetrics(t *testing.T) {
	own := map[string]int{}
	for name, of := range owners(t) {
		if sorted := slices.Compact(slices.Sorted(slices.Values(of))); len(sorted) != len(of) {
			t.Errorf("%s is listed twice for a process: %v", name, of)
		}
		if len(of) == 1 {
			own[of[0]]++
		}
	}
	for _, process := range processes {
		if own[process] < 10 {
			t.Errorf("%s has only %d metrics of its own", process, own[process])
		}
	}
}

// checkOwners checks that each process exports only its own metrics, and all that it exports are documented.
func (p *prometheus) checkOwners(t *testing.T) {
	t.Helper()
	owners, own := owners(t), map[string]int{}
	for _, s := range p.exported(t) {
		name := s.Name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of a histogram
			if base, ok := strings.CutSuffix(name, suffix); ok && owners[name] == nil && owners[base] != nil {
				name = base
			}
		}
		process := strings.TrimSuffix(strings.TrimPrefix(s.Job, "quoin-"), "-metrics")
		switch of := owners[name]; {
		case of == nil:
			t.Errorf("%s exports %s, which %s does not have", s.Job, s.Name, metricsPage)
		case !slices.Contains(of, process):
			t.Errorf("%s exports %s, which is a metric of %v", s.Job, s.Name, of)
		case len(of) == 1:
			own[process]++
		}
	}
	for _, process := range processes {
		if own[process] == 0 {
			t.Errorf("%s exports no metrics of its own", process)
		}
	}
}

// exportedMetric is the name and the job of a series.
type exportedMetric struct {
	Name string `json:"__name__"`
	Job  string `json:"job"`
}

// exported returns the names of Quoin's metrics that have series, with their jobs.
func (p *prometheus) exported(t *testing.T) []exportedMetric {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Metric exportedMetric }
		}
	}
	text := p.get(t, "/api/v1/query?query="+url.QueryEscape(`group by (__name__, job) ({__name__=~"quoin_.+"})`))
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var all []exportedMetric
	for _, r := range answer.Data.Result {
		all = append(all, r.Metric)
	}
	return all
}
