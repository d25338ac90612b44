package cluster

import (
	"context"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/command"
)

// Kubectl runs the cluster's kubectl as an administrator and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Env["QUOIN_BIN"]+"/kubectl", args...)
	cmd.Env = os.Environ()
	for _, name := range []string{"KUBECONFIG", "KUBECACHEDIR"} {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name])
	}
	cmd.Stdin = strings.NewReader(stdin)
	return command.Output(cmd)
}

// MustKubectl runs kubectl and fails the test on errors.
func (c *Cluster) MustKubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := c.Kubectl(ctx, "", args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// Apply applies a manifest with kubectl.
func (c *Cluster) Apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := c.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// Table splits the output of kubectl get into rows by column. Cells must not be empty.
func Table(text string) []map[string]string {
	GinkgoHelper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	columns := strings.Fields(lines[0])
	var rows []map[string]string
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		Expect(cells).To(HaveLen(len(columns)), "a cell is empty or contains a space:\n%s", text)
		row := map[string]string{}
		for i, column := range columns {
			row[column] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}
