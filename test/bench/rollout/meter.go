package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// meter reads usage: writes and reads of the controller, and processor time.
//
// kube-apiserver does not count requests by user. But API Priority and Fairness assigns each request to a FlowSchema,
// by user, verb and resource, and counts the requests dispatched from each. So each kind of write gets a FlowSchema of
// its own, with the priority level of all service accounts, which changes nothing else.
type meter struct {
	cluster    *cluster
	controller *controller
	api        *kubernetes.Clientset
}

// flow is a kind of request that is counted separately.
type flow struct {
	verbs, groups, resources []string
	precedence               int32
}

const (
	flowPrefix = "bench."
	flowReads  = flowPrefix + "reads"
	// Token and access reviews for the metrics endpoint: not counted.
	flowReviews  = flowPrefix + "reviews"
	flowPriority = "workload-low"
	everything   = "*"
)

// written are the resources that the controller writes.
var written = []struct {
	group     string
	resources []string
}{
	{"platform.quoin.dev", []string{
		"accounts", "accounts/status", "claims", "deployments", "deployments/status",
		"environments", "environments/status", "releasechannels/status",
	}},
	{"apps", []string{"deployments"}},
	{"", []string{"secrets", "services", "serviceaccounts"}},
	{"networking.k8s.io", []string{"networkpolicies"}},
	{"events.k8s.io", []string{"events"}},
}

// flows returns the flows by name, such as "bench.patch.environments.status".
func flows() map[string]flow {
	verbs := []string{"create", "delete", "patch", "update"}
	all := map[string]flow{
		flowReviews:          {verbs, []string{"authentication.k8s.io", "authorization.k8s.io"}, []string{everything}, 8000},
		flowPrefix + "other": {verbs, []string{everything}, []string{everything}, 8200},
		flowReads:            {[]string{"get", "list"}, []string{everything}, []string{everything}, 8200},
	}
	for _, kind := range written {
		for _, resource := range kind.resources {
			for _, verb := range verbs {
				name := flowPrefix + verb + "." + strings.ReplaceAll(resource, "/", ".")
				if kind.group == "apps" {
					name += ".apps"
				}
				all[name] = flow{[]string{verb}, []string{kind.group}, []string{resource}, 8100}
			}
		}
	}
	return all
}

// countWrites creates the FlowSchemas.
func (m *meter) countWrites(ctx context.Context) error {
	var err error
	if m.api, err = kubernetes.NewForConfig(m.cluster.config); err != nil {
		return err
	}
	all := flows()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		_, err := m.api.FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: flowPriority},
				MatchingPrecedence:         f.precedence,
				DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects: []flowcontrolv1.Subject{{
						Kind:           flowcontrolv1.SubjectKindServiceAccount,
						ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: quoinNamespace, Name: serviceAccount},
					}},
					ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
						Verbs: f.verbs, APIGroups: f.groups, Resources: f.resources,
						ClusterScope: true, Namespaces: []string{everything},
					}},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("count %s: %w", name, err)
		}
	}
	return nil
}

// reading is the usage until now, or between two readings.
type reading struct {
	writes     map[string]int
	reads      int
	reconciles map[string]int     // by controller
	cpu        map[string]float64 // seconds, by process
}

func (m *meter) read(ctx context.Context) (reading, error) {
	r := reading{writes: map[string]int{}, reconciles: map[string]int{}, cpu: m.processorTime()}
	text, err := m.api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return r, fmt.Errorf("read the API server's metrics: %w", err)
	}
	for name, count := range samples(string(text), "apiserver_flowcontrol_dispatched_requests_total", "flow_schema") {
		switch {
		case !strings.HasPrefix(name, flowPrefix) || name == flowReviews:
		case name == flowReads:
			r.reads = count
		default:
			r.writes[strings.TrimPrefix(name, flowPrefix)] = count
		}
	}
	if m.controller.process == nil {
		return r, nil
	}
	own, err := m.controller.metrics(ctx)
	r.reconciles = samples(own, "controller_runtime_reconcile_total", "controller")
	return r, err
}

// samples returns the values of a metric, summed by one of its labels.
func samples(metrics, name, label string) map[string]int {
	sums := map[string]int{}
	for labels, value := range measure.Samples(metrics, name) {
		sums[labels.Value(label)] += int(value)
	}
	return sums
}

// since returns the usage between two readings.
func (r reading) since(before reading) reading {
	used := reading{
		writes: increase(before.writes, r.writes), reads: r.reads - before.reads,
		reconciles: increase(before.reconciles, r.reconciles), cpu: map[string]float64{},
	}
	for name, seconds := range r.cpu {
		used.cpu[name] = seconds - before.cpu[name]
	}
	return used
}

func increase(from, to map[string]int) map[string]int {
	more := map[string]int{}
	for name, count := range to {
		if n := count - from[name]; n > 0 {
			more[name] = n
		}
	}
	return more
}

// processorTime returns the processor time of each process of the cluster, the controller and this program, in
// seconds. It is empty if there is no /proc.
func (m *meter) processorTime() map[string]float64 {
	used := map[string]float64{"bench": process.UsageOf(os.Getpid()).Processor}
	if m.controller.process != nil {
		used[controllerName] = process.UsageOf(m.controller.process.ID()).Processor
	}
	records, _ := filepath.Glob(filepath.Join(m.cluster.dir, "pids", "*.json")) // the pattern is well-formed
	for _, path := range records {
		record := struct{ PID int }{}
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &record) != nil {
			continue
		}
		used[strings.TrimSuffix(filepath.Base(path), ".json")] = process.UsageOf(record.PID).Processor
	}
	return used
}

// awaitQuiet waits until the cluster has finished background work, such as removing pods, so that it does not count in
// the next measurement.
func (m *meter) awaitQuiet(ctx context.Context) {
	const (
		window  = 3 * time.Second
		quiet   = 0.15 // of one processor
		atMost  = 2 * time.Minute
		atLeast = 10 * time.Second
	)
	start := time.Now()
	for time.Since(start) < atMost && ctx.Err() == nil {
		before := measure.Total(m.processorTime())
		process.Pause(ctx, window)
		if used := measure.Total(m.processorTime()) - before; used < quiet*window.Seconds() && time.Since(start) >= atLeast {
			return
		}
	}
}
