// Package newkind_test proves the worked example "A new kind" of docs/architecture.md: it adds the
// kind Role to a copy of the repository with the files that the page lists, runs `make generate`,
// and checks that nothing else needs an edit.
package newkind_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root = "../.."
	// maxFiles is the most files that a new kind may need edits in.
	maxFiles = 8
)

// edits are the changes to files that exist: each inserts text before or after another.
var edits = []struct{ path, before, after, insert string }{
	{
		path: "api/v1alpha1/kinds.go", before: "\t}, {\n\t\tObject: &Claim{}",
		insert: "\t}, {\n\t\tObject: &Role{}, List: &RoleList{}, Plural: \"roles\", ShortName: \"qrole\", DisplayName: \"Role\",\n" +
			"\t\tController: true, WrittenBy: \"users, the REST API\",\n" +
			"\t\tCached: Cached{Controller: Whole, APIServer: Whole},\n" +
			"\t\tRoles:  Roles{Admin: Write},\n" +
			"\t\tEvents: Events{\"Created role\", \"Updated role\", \"Deleted role\"},\n",
	},
	{
		path: "controllers/controllers.go", after: "\t\"github.com/quoin-dev/quoin/controllers/releasechannel\"\n",
		insert: "\t\"github.com/quoin-dev/quoin/controllers/role\"\n",
	},
	{
		path: "controllers/controllers.go", after: "\trecorder := mgr.GetEventRecorder\n",
		insert: "\tadd(\"role\", \"Role\", role.SetupWithManager, role.New(k, recorder(role.FieldManager), clk))\n",
	},
}

func TestNewKind(t *testing.T) {
	folder := t.TempDir()
	copyRepository(t, folder)
	edited := addRole(t, folder)
	if len(edited) > maxFiles {
		t.Errorf("%d files are edited by hand, want at most %d", len(edited), maxFiles)
	}
	if diff := cmp.Diff(documented(t), edited); diff != "" {
		t.Errorf("files edited by hand (-docs/architecture.md +this test):\n%s", diff)
	}
	run(t, folder, "go", "build", "-C", "hack/tools", "-o", filepath.Join(folder, "bin", "controller-gen"), "sigs.k8s.io/controller-tools/cmd/controller-gen")
	run(t, folder, "make", "generate", "-o", filepath.Join(folder, "bin", "controller-gen"))
	run(t, folder, "go", "vet", "./api/...", "./apiserver/...", "./controllers/...", "./gateway/...", "./cmd/...", "./hack/...", "./test/api")
	run(t, folder, "go", "test", "./hack/manifests", "./hack/chart", "./hack/docs", "./controllers/role")
	run(t, folder, "go", "test", "./test/docs", "-run", "TestDocumentation/docs/kinds")
	run(t, folder, "go", "test", "./apiserver/recording", "./internal/ids", "-run", "Names|Counters")
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Log("KUBEBUILDER_ASSETS is not set: ./test/api was not run")
		return
	}
	run(t, folder, "go", "test", "./test/api")
	roleIsEverywhere(t, folder)
}

// copyRepository copies the files that are in Git, but for those of the data plane's packages.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	for path := range strings.SplitSeq(strings.TrimSpace(run(t, root, "git", "ls-files", "--", ":!hack/dataplane")), "\n") {
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, path), text)
	}
}

// addRole adds the files of testdata and makes the edits. It returns the paths, sorted.
func addRole(t *testing.T, folder string) []string {
	t.Helper()
	var paths []string
	err := fs.WalkDir(os.DirFS("testdata"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join("testdata", path))
		if err != nil {
			return err
		}
		write(t, filepath.Join(folder, path), text)
		paths = append(paths, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		text, err := os.ReadFile(filepath.Join(folder, e.path))
		if err != nil {
			t.Fatal(err)
		}
		anchor := e.before + e.after
		if strings.Count(string(text), anchor) != 1 {
			t.Fatalf("%s: want %q once", e.path, anchor)
		}
		write(t, filepath.Join(folder, e.path), []byte(strings.Replace(string(text), anchor, e.after+e.insert+e.before, 1)))
		paths = append(paths, e.path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

var listedFile = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// documented returns the files that the section "A new kind" of docs/architecture.md lists, sorted.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## A new kind\n")
	if !found {
		t.Fatal("docs/architecture.md has no section \"A new kind\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var paths []string
	for _, match := range listedFile.FindAllStringSubmatch(section, -1) {
		paths = append(paths, strings.ReplaceAll(match[1], "<kind>", "role"))
	}
	slices.Sort(paths)
	return paths
}

// roleIsEverywhere checks that the generated files name the new kind.
func roleIsEverywhere(t *testing.T, folder string) {
	t.Helper()
	for path, want := range map[string]string{
		"PROJECT":                                                 "kind: Role",
		"config/crd/kustomization.yaml":                           "platform.quoin.dev_roles.yaml",
		"config/rbac/role.yaml":                                   "- roles/status",
		"config/rbac/apiserver_role.yaml":                         "- roles",
		"config/rbac/admin_role.yaml":                             "- roles",
		"config/audit/validating_webhook.yaml":                    "- roles",
		"charts/quoin/Chart.yaml":                                 "roles.platform.quoin.dev",
		"charts/quoin/templates/apiserver/validatingwebhook.yaml": "- roles",
		"charts/quoin/templates/roles/admin-role.yaml":            "- roles",
		"docs/kinds/README.md":                                    "[Role](role.md)",
		"docs/kinds/role.md":                                      "| `displayName` | string |",
	} {
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q after make generate", path, want)
		}
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a command in a folder and returns its standard output. A failure ends the test.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = folder
	var errors strings.Builder
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, output, errors.String())
	}
	return string(output)
}
