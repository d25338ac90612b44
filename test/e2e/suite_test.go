// Package e2e_test plays the journeys of the people who use Quoin, on a cluster of its own:
// a real API server, real controllers of Kubernetes, a real registry, bin/quoin as a process
// with the rights that it has in production. The nodes are simulated, or there is a real one.
//
//	QUOIN_E2E_NODES=simulated go test ./test/e2e    # no root needed
//	QUOIN_E2E_NODES=real go test ./test/e2e         # Linux, root: containers that answer
//
// Each journey has an account of its own with the same name as its namespace, its channel and
// its image repository. docs/journeys tells some of them in words.
package e2e_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// What nodes the cluster has.
const (
	simulated = "simulated"
	real      = "real"
)

// patience is how long something may take that has no deadline of its own. It is no
// promise to users: the machine that runs the tests may be busy with others.
const patience = 90 * time.Second

// quoin is the controller that runs unless a journey runs its own.
var quoin *controller

// world is the cluster that all journeys share.
var world *cluster

func TestJourneys(t *testing.T) {
	nodes := os.Getenv("QUOIN_E2E_NODES")
	if nodes == "" {
		how := "QUOIN_E2E_NODES is not set; run make test-cluster (simulated nodes) or make e2e (a real node; Linux, root)"
		if os.Getenv("CI") != "" {
			t.Fatal("with CI set the journeys must run: " + how)
		}
		t.Skip("SKIPPED LOUDLY: " + how)
	}
	if nodes != simulated && nodes != real {
		t.Fatalf("QUOIN_E2E_NODES=%q: want %s or %s", nodes, simulated, real)
	}
	log.SetLogger(logr.Discard())
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	// go test's own timeout kills the process and leaves the cluster running.
	if deadline, ok := t.Deadline(); ok {
		suite.Timeout = min(suite.Timeout, time.Until(deadline)-time.Minute)
	}
	RunSpecs(t, "Journeys on "+nodes+" nodes", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	world, err = startCluster(ctx, os.Getenv("QUOIN_E2E_NODES"))
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute)) // the cluster's binaries may have to be built first

var _ = AfterSuite(func(ctx SpecContext) {
	if quoin != nil {
		quoin.stop()
	}
	if world == nil {
		return
	}
	Expect(world.stop(ctx, anyFailed)).To(Succeed())
}, NodeTimeout(2*time.Minute))

// Journeys find the controller running, with the usual flags, whatever the one before did to it.
var _ = BeforeEach(func(ctx SpecContext) { runUsualController(ctx) })

// anyFailed keeps the logs of the cluster.
var anyFailed bool

var _ = JustAfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		anyFailed = true
		showEvidence(ctx)
	}
})

// onlySimulated leaves a journey out where pods are real: it needs many of them, or nothing
// in it depends on what runs in them.
func onlySimulated(why string) {
	if world.nodes != simulated {
		Skip(fmt.Sprintf("only on simulated nodes: %s", why))
	}
}
