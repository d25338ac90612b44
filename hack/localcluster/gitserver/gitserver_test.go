package gitserver

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// TestGitServer clones the repositories and pushes to one with the git binary of
// this machine.
func TestGitServer(t *testing.T) {
	ports, release, err := cluster.PickPorts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	server := "http://" + cluster.Loopback(ports[cluster.PortGit])
	root := filepath.Join(t.TempDir(), "git")
	all, err := repositories()
	if err == nil {
		err = createRepositories(t.Context(), root, server, all)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, root, cluster.Loopback(ports[cluster.PortGit])) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	url := server + "/" + modelName
	if err := process.WaitReady(t.Context(), "git", os.DevNull, nil, 30*time.Second, process.HTTPProbe(http.DefaultClient, url+"/info/refs?service=git-upload-pack")); err != nil {
		t.Fatal(err)
	}

	clone, again, project := filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "again"), filepath.Join(t.TempDir(), "project")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(process.CleanEnvironment(os.Environ()), environment...)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	run("clone", "--quiet", "--branch", branch, url, clone)
	if _, err := os.Stat(filepath.Join(clone, "orders.yml")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "customers.yml"), []byte("cubes: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("-C", clone, "add", ".")
	run("-C", clone, "commit", "--quiet", "--message", "Customers")
	run("-C", clone, "push", "--quiet", "origin", branch)
	run("clone", "--quiet", url, again)
	if _, err := os.Stat(filepath.Join(again, "customers.yml")); err != nil {
		t.Error(err)
	}
	run("clone", "--quiet", server+"/"+dbtName, project)
	packages, err := os.ReadFile(filepath.Join(project, "packages.yml"))
	if err != nil || !strings.Contains(string(packages), server+"/"+dbtMoneyName) {
		t.Errorf("the project depends on %s, %v", packages, err)
	}
	run("clone", "--quiet", "--branch", "1.0.0", server+"/"+dbtMoneyName, filepath.Join(project, "dbt_packages", "money"))
	if _, err := os.Stat(filepath.Join(project, "dbt_packages", "money", "dbt_project.yml")); err != nil {
		t.Error(err)
	}
}
