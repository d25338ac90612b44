package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// kubectl runs the cluster's own kubectl as an administrator and returns what it prints.
func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.env["QUOIN_BIN"]+"/kubectl", args...)
	cmd.Env = os.Environ()
	for _, name := range []string{"KUBECONFIG", "KUBECACHEDIR"} {
		cmd.Env = append(cmd.Env, name+"="+c.env[name])
	}
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
}

// kubectl is what an administrator types.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := world.kubectl(ctx, "", args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// apply is kubectl apply of a manifest.
func apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := world.kubectl(ctx, manifest, "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// table splits what kubectl get prints into rows by column. It takes tables in which no
// cell is empty.
func table(text string) []map[string]string {
	GinkgoHelper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	columns := strings.Fields(lines[0])
	var rows []map[string]string
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		Expect(cells).To(HaveLen(len(columns)), "a cell is empty or holds a space:\n%s", text)
		row := map[string]string{}
		for i, column := range columns {
			row[column] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}
