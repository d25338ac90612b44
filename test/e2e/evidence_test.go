package e2e_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// Limits of the output for a failure. The files that are kept have everything.
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
