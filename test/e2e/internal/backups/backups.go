// Package backups runs the documented commands for backups.
package backups

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/command"
)

// archiveCommand matches the documented command that copies objects, and content in the pod of `quoin apiserver`.
var archiveCommand = regexp.MustCompile("(?s)```sh\n(quoin backup --kubeconfig [^\n]* -- \\\\\n[^\n]+)\n```")

// inShell runs commands in a folder, in a shell whose PATH has kubectl and quoin.
func inShell(ctx context.Context, world *cluster.Cluster, folder, commands string) {
	GinkgoHelper()
	shell := exec.CommandContext(ctx, "sh", "-euc", commands)
	shell.Dir = folder
	path := strings.Join([]string{filepath.Dir(world.Binary()), world.Env["QUOIN_BIN"], os.Getenv("PATH")}, string(filepath.ListSeparator))
	shell.Env = append(os.Environ(), "PATH="+path)
	for _, name := range []string{"KUBECONFIG", "KUBECACHEDIR"} {
		shell.Env = append(shell.Env, name+"="+world.Env[name])
	}
	_, err := command.Output(shell)
	Expect(err).NotTo(HaveOccurred())
}

// Create runs the documented command, and returns the folder with the archive.
func Create(ctx context.Context, world *cluster.Cluster) string {
	GinkgoHelper()
	page, err := os.ReadFile(cluster.Repository("docs", "operations", "backup.md"))
	Expect(err).NotTo(HaveOccurred())
	found := archiveCommand.FindAllStringSubmatch(string(page), -1)
	Expect(found).To(HaveLen(1), "commands that match %s", archiveCommand)
	folder, err := os.MkdirTemp(world.Dir, "backup-")
	Expect(err).NotTo(HaveOccurred())
	inShell(ctx, world, folder, found[0][1])
	return folder
}

// Archive is the name of the archive.
const Archive = "quoin.backup"

// RestoreContent restores the content of the archive in a folder into a new database, and returns its files as text.
func RestoreContent(ctx context.Context, world *cluster.Cluster, folder string) string {
	GinkgoHelper()
	inShell(ctx, world, folder, "quoin restore --content-only --file "+Archive+` --database-url "sqlite://$PWD/quoin.db"`)
	files, err := filepath.Glob(filepath.Join(folder, "quoin.db*"))
	Expect(err).NotTo(HaveOccurred())
	var content strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		content.Write(text)
	}
	return content.String()
}
