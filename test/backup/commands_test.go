package backup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// documented returns the only command of the documentation that matches a pattern: its group.
func documented(t *testing.T, pattern string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(page), -1)
	if len(found) != 1 {
		t.Fatalf("%d commands match %s, want one", len(found), pattern)
	}
	return found[0][1]
}

// shell runs a command in the folder of the cluster.
func (w *world) shell(command string, env ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-euc", command)
	cmd.Dir, cmd.Env = w.Folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// needs skips a test without a program, or fails if CI is set.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("SKIPPED LOUDLY: %s is not installed", program)
}

// copied is what users see, before it was changed.
type copied struct {
	seen   map[string]string
	events []string
}

// copyDatabase fills a world, runs the command that copies its database, and then changes what users see.
func (w *world) copyDatabase(command string, env ...string) copied {
	w.t.Helper()
	w.fill(startRegistry(w.t))
	before := copied{w.observe(), w.events()}
	w.shell(command, env...)
	w.call(w.admin, "POST", "/api/v1/deployments/2/folders", map[string]any{"name": "Later"})
	if cmp.Equal(before.seen, w.observe()) {
		w.t.Error("a new folder changes nothing")
	}
	w.stop()
	return before
}

// checkRestored starts Quoin, and checks that users see what they saw when the database was copied.
func (w *world) checkRestored(before copied) {
	w.t.Helper()
	w.start()
	w.settled()
	if diff := cmp.Diff(before.seen, w.observe()); diff != "" {
		w.t.Errorf("restored (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.events, w.events()); diff != "" {
		w.t.Errorf("audit log (-before +after):\n%s", diff)
	}
	w.stop()
}

// A database in PostgreSQL is dumped while Quoin serves, and restored in place and in an empty database.
func TestDocumentedDumpOfPostgreSQL(t *testing.T) {
	needs(t, "pg_dump")
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	server := postgrestest.StartServer(t)
	w := newWorld(t, server.Database(t), address)
	before := w.copyDatabase(documented(t, "`(pg_dump [^`]+)`"), "DATABASE_URL="+w.databaseURL)
	restore := documented(t, "`(pg_restore [^`]+)`")
	for _, database := range []string{w.databaseURL, server.Database(t)} {
		w.databaseURL = database
		w.shell(restore, "DATABASE_URL="+database)
		w.checkRestored(before)
	}
}

// A database in SQLite is copied while Quoin serves, and restored in place.
func TestDocumentedCopyOfSQLite(t *testing.T) {
	needs(t, "sqlite3")
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, storetest.SQLiteURL(t), address)
	file := strings.TrimPrefix(w.databaseURL, "sqlite://")
	// In the pod, the database and its copy have other paths.
	local := func(command string) string {
		return strings.NewReplacer("/data/quoin.db", file, "/tmp/quoin.db", "quoin.db").Replace(command)
	}
	before := w.copyDatabase(local(documented(t, `-- (sqlite3 .*)`)))
	w.shell("(" + local(documented(t, `sh -c '([^']+)'`)) + ") < quoin.db")
	w.checkRestored(before)
}

// The command of Velero excludes all kinds of Quoin from a restore, and no others of the group.
func TestDocumentedExclusionsOfVelero(t *testing.T) {
	excluded := map[string]bool{}
	for name := range strings.SplitSeq(documented(t, `velero restore create .* --exclude-resources (\S+) --selector`), ",") {
		if plural, found := strings.CutSuffix(name, "."+v1alpha1.GroupVersion.Group); found {
			excluded[plural] = true
		}
	}
	want := map[string]bool{}
	for _, kind := range v1alpha1.Kinds {
		want[kind.Plural] = true
	}
	if diff := cmp.Diff(want, excluded); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// An archive is encrypted and decrypted.
func TestDocumentedEncryption(t *testing.T) {
	needs(t, "age")
	w := newWorld(t, storetest.SQLiteURL(t), "")
	w.shell(`age-keygen -o key.txt && age-keygen -y key.txt > recipient`)
	encrypt := strings.NewReplacer("quoin backup", w.Binary()+" backup", "…", "--exclude-content --kubeconfig "+w.Kubeconfig()).
		Replace(documented(t, "`(quoin backup --file - [^`]+)`"))
	w.shell(`RECIPIENT=$(cat recipient); ` + encrypt)
	w.shell(documented(t, "`(age -d [^`]+)`"))
	out, err := w.quoin("restore", "--exclude-content", "--kubeconfig", w.Kubeconfig(), "--file", filepath.Join(w.Folder, "quoin.backup"))
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
