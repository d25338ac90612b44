// Package e2e_test tests user journeys on a local cluster: kube-apiserver, the controllers of Kubernetes, a registry, and
// bin/quoin processes with their production permissions. The nodes are simulated, or there is one real node.
//
//	QUOIN_E2E_NODES=simulated go test ./test/e2e    # no root needed
//	QUOIN_E2E_NODES=real go test ./test/e2e         # Linux, root: real containers
//
// Each journey has its own account, with a namespace, a channel and an image repository of the same name. docs/journeys
// describes the journeys for users.
package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// timeout limits waiting for conditions without a deadline of their own. It allows for a busy machine.
const timeout = 90 * time.Second

// quoin is the default controller, unless a journey runs its own.
var quoin *controller

// world is the cluster, shared by all journeys.
var world *cluster.Cluster

func TestJourneys(t *testing.T) {
	nodes := os.Getenv("QUOIN_E2E_NODES")
	if nodes == "" {
		how := "QUOIN_E2E_NODES is not set; run make test-cluster (simulated nodes) or make e2e (a real node; Linux, root)"
		if os.Getenv("CI") != "" {
			t.Fatal("with CI set the journeys must run: " + how)
		}
		t.Skip("SKIPPED LOUDLY: " + how)
	}
	if nodes != cluster.Simulated && nodes != cluster.Real {
		t.Fatalf("QUOIN_E2E_NODES=%q: want %s or %s", nodes, cluster.Simulated, cluster.Real)
	}
	log.SetLogger(logr.Discard())
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(timeout)
	EnforceDefaultTimeoutsWhenUsingContexts() // without it, Eventually with a context has no timeout
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	// The timeout of go test would kill the process and leave the cluster running.
	if deadline, ok := t.Deadline(); ok {
		suite.Timeout = min(suite.Timeout, time.Until(deadline)-time.Minute)
	}
	RunSpecs(t, "Journeys on "+nodes+" nodes", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	world, err = cluster.Start(ctx, os.Getenv("QUOIN_E2E_NODES"))
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute)) // including building the binaries of the cluster

var _ = AfterSuite(func(ctx SpecContext) {
	if quoin != nil {
		quoin.Stop()
	}
	if world == nil {
		return
	}
	Expect(world.Stop(ctx, anyFailed)).To(Succeed())
}, NodeTimeout(2*time.Minute))

// maxRunAgain is how many journeys may fail to be run again: more are a defect.
const maxRunAgain = 2

// The journeys that failed are written to a file as an expression for -ginkgo.focus, so that make can run them again.
var _ = ReportAfterSuite("failed journeys", func(r Report) {
	failed := map[string]bool{}
	for i := range r.SpecReports {
		s := &r.SpecReports[i]
		if !s.Failed() {
			continue
		}
		if len(s.ContainerHierarchyTexts) == 0 { // the suite itself, such as the start of the cluster
			return
		}
		failed[regexp.QuoteMeta(s.ContainerHierarchyTexts[0])] = true
	}
	if file := os.Getenv("QUOIN_FAILED_JOURNEYS"); file != "" && len(failed) > 0 && len(failed) <= maxRunAgain {
		focus := "^" + regexp.QuoteMeta(r.SuiteDescription) + " (" + strings.Join(slices.Sorted(maps.Keys(failed)), "|") + ") "
		Expect(os.WriteFile(file, []byte(focus+"\n"), 0o600)).To(Succeed())
	}
})

// ownQuoin is the label of journeys that install Quoin themselves.
const ownQuoin = "own Quoin"

// Every other journey starts with the default controller running.
var _ = BeforeEach(func(ctx SpecContext) {
	if !slices.Contains(CurrentSpecReport().Labels(), ownQuoin) {
		runDefaultController(ctx)
	}
})

// anyFailed reports whether a journey has failed: then the logs of the cluster are kept.
var anyFailed bool

var _ = JustAfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		anyFailed = true
		showEvidence(ctx)
	}
})

// onlySimulated skips a journey on a real node, because it needs many pods or does not depend on the containers.
func onlySimulated(reason string) {
	if world.Nodes != cluster.Simulated {
		Skip(fmt.Sprintf("only on simulated nodes: %s", reason))
	}
}

// kubectl runs kubectl and fails the test on errors.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return world.MustKubectl(ctx, args...)
}

// apply applies a manifest with kubectl.
func apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	world.Apply(ctx, manifest)
}

const (
	shownLogLines    = 30
	shownObjectLines = 250
)

// showEvidence adds logs, objects and events to the report of a failure.
func showEvidence(ctx context.Context) {
	var text strings.Builder
	if quoin != nil {
		fmt.Fprintf(&text, "the end of %s:\n%s\n", quoin.Log, quoin.Tail(shownLogLines))
	}
	show := func(title string, args ...string) {
		out, err := world.Kubectl(ctx, "", args...)
		if err != nil {
			out += err.Error()
		}
		lines := strings.Split(out, "\n")
		if cut := len(lines) - shownObjectLines; cut > 0 {
			lines = append(lines[:shownObjectLines], fmt.Sprintf("… and %d more lines", cut))
		}
		fmt.Fprintf(&text, "\n%s:\n%s\n", title, strings.Join(lines, "\n"))
	}
	show("accounts and channels", "get", "acct,relch", "-o", "wide")
	show("pods of Quoin", "get", "pods", "-n", cluster.Namespace, "-o", "wide")
	show("logs of Quoin", "logs", "-n", cluster.Namespace, "-l", "app.kubernetes.io/name=quoin", "--prefix", "--tail=20", "--max-log-requests=10")
	show("events of Quoin", "get", "events", "-n", cluster.Namespace, "--sort-by=.lastTimestamp")
	for _, t := range tenants {
		show("in namespace "+t.name, "get", "quoin,replicasets,pods", "-n", t.name, "-o", "wide")
		show("events", "get", "events", "-n", t.name, "--sort-by=.lastTimestamp")
		show("objects", "get", "quoin", "-n", t.name, "-o", "yaml")
	}
	AddReportEntry("evidence", ReportEntryVisibilityFailureOrVerbose, text.String())
}
