package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/bcrypt"
)

// distributionBinary returns the path of the CNCF distribution registry, or
// skips the test.
func distributionBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("QUOIN_REGISTRY_BINARY"); path != "" {
		return path
	}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if path := filepath.Join(assets, "registry"); exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Skip("SKIPPED: NO REAL REGISTRY: set QUOIN_REGISTRY_BINARY to a binary of github.com/distribution/distribution " +
		"(or put it into $KUBEBUILDER_ASSETS/registry); this package is then tested against go-containerregistry's fake only")
	return ""
}

// startDistribution runs the real registry on loopback with htpasswd
// authentication (bcrypt) and returns "host:port".
func startDistribution(t *testing.T, user, password string) string {
	t.Helper()
	binary, dir, host := distributionBinary(t), t.TempDir(), closedPort(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "htpasswd"), user+":"+string(hash)+"\n")
	config := filepath.Join(dir, "config.yml")
	writeFile(t, config, fmt.Sprintf(`version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: %s/data}}
http: {addr: %s}
auth: {htpasswd: {realm: test, path: %s/htpasswd}}
`, dir, host, dir))

	var output bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "serve", config)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("registry: %s", output.String())
		}
	})
	waitForPort(t, host)
	return host
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func waitForPort(t *testing.T, address string) {
	t.Helper()
	for range 200 {
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("no server listens on %s", address)
}

func TestDistributionRegistry(t *testing.T) {
	const user, password = "ci", "hunter2-do-not-print"
	host := startDistribution(t, user, password)
	k, err := ParseDockerConfig(fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, host, user, password))
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, Options{PlainHTTP: true, Keychain: k})
	opts := []remote.Option{remote.WithAuthFromKeychain(k)}
	repository := host + "/demo/cube"
	image := pushImage(t, repository, opts, "v1.0.0", "v1.0.1")
	index := pushIndex(t, repository, opts, "v2.0.0")

	tags, err := c.Tags(t.Context(), repository)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1.0.0", "v1.0.1", "v2.0.0"}, tags); diff != "" {
		t.Error(diff)
	}
	digests, err := c.Digests(t.Context(), repository, append(tags, "gone"), 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"v1.0.0": image, "v1.0.1": image, "v2.0.0": index}, digests); diff != "" {
		t.Error(diff)
	}

	failures := map[string]struct {
		keychain   authn.Keychain
		repository string
		is         error
		text       string
	}{
		"anonymous":      {nil, "demo/cube", ErrUnauthorized, "repository demo/cube: unauthorized"},
		"wrong password": {keychain{{host: host, auth: authn.AuthConfig{Username: user, Password: "x"}}}, "demo/cube", ErrUnauthorized, "repository demo/cube: unauthorized"},
		"no repository":  {k, "demo/none", ErrNotFound, "repository demo/none: not found"},
	}
	for name, tt := range failures {
		t.Run(name, func(t *testing.T) {
			_, err := newTestClient(t, Options{PlainHTTP: true, Keychain: tt.keychain}).Tags(t.Context(), host+"/"+tt.repository)
			if !errors.Is(err, tt.is) || err.Error() != tt.text {
				t.Errorf("error %v, want %q", err, tt.text)
			}
		})
	}
}

// TestDistributionRegistryPages creates more tags than one page holds, so that
// the real Link header is followed.
func TestDistributionRegistryPages(t *testing.T) {
	const count = pageSize + 250
	host := startDistribution(t, "ci", "pw")
	k := keychain{{host: host, auth: authn.AuthConfig{Username: "ci", Password: "pw"}}}
	repo, err := name.NewRepository(host + "/demo/many")
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	pusher, err := remote.NewPusher(remote.WithAuthFromKeychain(k), remote.WithTransport(http.DefaultTransport))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, count)
	for i := range want {
		want[i] = fmt.Sprint("t", i)
		if err := pusher.Push(t.Context(), repo.Tag(want[i]), image); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	got, err := newTestClient(t, Options{PlainHTTP: true, Keychain: k}).Tags(t.Context(), repo.Name())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
