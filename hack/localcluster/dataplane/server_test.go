package dataplane

import (
	"archive/tar"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/warehouse/warehousetest"
)

const secret = "the secret of the tests"

// server is a server of an image, which runs on this machine.
type server struct{ url string }

// previous is the newest version whose answers need no addon, and newest has the
// stand-in for it.
const (
	previous = "0.35.81"
	newest   = "1.6.57"
)

// TestStandIn runs the unit tests of the stand-in for the native addon.
func TestStandIn(t *testing.T) {
	source := needNPM(t)
	cmd := exec.CommandContext(t.Context(), "node", "--test", filepath.Join(source, "native"))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
}

// needNPM returns the folder hack/dataplane, or skips the test if there is no
// npm.
func needNPM(t *testing.T) string {
	t.Helper()
	source, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	if missing := host.MissingPackages(host.NPMPackages); len(missing) > 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("with CI set the tests of the server must run: %q are not installed", missing)
		}
		t.Skipf("SKIPPED LOUDLY: %q are not installed", missing)
	}
	return source
}

// unpack returns a new folder with the files of a version's image, and its
// entrypoint there.
func unpack(t *testing.T, source, version string) (folder string, entrypoint []string) {
	t.Helper()
	cache, err := Layers(t.Context(), source, false)
	if err != nil {
		t.Fatal(err)
	}
	options, err := Image(cache, source, version, false)
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	for _, layer := range options.Layers {
		files, err := layer.Uncompressed()
		if err == nil {
			err = errors.Join(untar(files, folder), files.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, argument := range options.Entrypoint {
		if filepath.IsAbs(argument) {
			argument = filepath.Join(folder, argument)
		}
		entrypoint = append(entrypoint, argument)
	}
	return folder, entrypoint
}

func untar(files io.Reader, folder string) error {
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, archive)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
}

// TestServers runs servers of the images on this machine, with projects as quoin
// model-fetch completes them. An image is unpacked once, which takes most of the
// time.
func TestServers(t *testing.T) {
	source := needNPM(t)
	c, warehouse := warehousetest.Start(t)
	sample := map[string]string{
		"cube.js":          read(t, source, "..", "..", "cmd", "quoin", "modelfetch", "configuration.js"),
		"model/orders.yml": read(t, source, "model", "orders.yml"),
	}
	withPolicies := maps.Clone(policies)
	withPolicies["cube.js"] = sample["cube.js"]
	previousImage, previousServer := unpack(t, source, previous)
	newestImage, newestServer := unpack(t, source, newest)
	servers := start(t, c,
		component(c, warehouse, previous, cluster.PortGateway, previousServer, project(t, previousImage, sample)),
		component(c, warehouse, newest, cluster.PortQuoinAPIServer, newestServer, project(t, newestImage, sample)),
		component(c, warehouse, "policies", cluster.PortRegistry, newestServer, project(t, newestImage, withPolicies)),
	)
	t.Run("answers", func(t *testing.T) { testAnswers(t, servers[0], servers[1]) })
	t.Run("access policies", func(t *testing.T) { testAccessPolicies(t, servers[2]) })
	t.Run("SQL", func(t *testing.T) {
		testSQL(t, servers[0])
		testSQL(t, servers[1])
	})
	t.Run("SQL with access policies", func(t *testing.T) { testSQLAccess(t, servers[2]) })
}

// component returns a daemon that runs a server of an entrypoint in a folder
// with its configuration and model.
func component(c *cluster.Cluster, warehouse map[string]string, name string, port cluster.PortName, entrypoint []string, folder string) cluster.Component {
	return cluster.Component{
		Daemon: process.Daemon{
			Name: name, Path: entrypoint[0], Args: entrypoint[1:], Folder: folder,
			Environment: []string{
				"PORT=" + strconv.Itoa(c.Ports[port]), "DATAPLANE_VERSION=" + name, "NODE_ENV=production",
				"CUBEJS_DEV_MODE=false", "CUBEJS_TELEMETRY=false", "CUBEJS_SCHEMA_PATH=model", "CUBEJS_API_SECRET=" + secret,
				"CUBEJS_PG_SQL_PORT=" + strconv.Itoa(c.Ports[cluster.PortGatewaySQL]), "CUBEJS_SQL_USER=cube", "CUBEJS_SQL_PASSWORD=" + secret,
				"CUBEJS_REFRESH_WORKER=false", "CUBEJS_CACHE_AND_QUEUE_DRIVER=memory", "CUBEJS_DB_TYPE=postgres",
				"CUBEJS_DB_HOST=" + warehouse["QUOIN_WAREHOUSE_HOST"], "CUBEJS_DB_PORT=" + warehouse["QUOIN_WAREHOUSE_PORT"],
				"CUBEJS_DB_NAME=" + warehouse["QUOIN_WAREHOUSE_DATABASE"], "CUBEJS_DB_USER=" + warehouse["QUOIN_WAREHOUSE_USER"],
				"CUBEJS_DB_PASS=" + warehouse["QUOIN_WAREHOUSE_PASSWORD"],
			},
		},
		Port: port, Timeout: 3 * time.Minute,
		Ready: process.HTTPProbe(http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.Ports[port])),
	}
}

// start starts servers and returns them in the same order.
func start(t *testing.T, c *cluster.Cluster, components ...cluster.Component) []server {
	t.Helper()
	if err := c.StartAll(t.Context(), components); err != nil {
		t.Fatal(err)
	}
	var servers []server
	for _, item := range components {
		t.Cleanup(func() { warehousetest.Stop(t, c, item.Name) })
		servers = append(servers, server{fmt.Sprintf("http://127.0.0.1:%d/cubejs-api/v1/", c.Ports[item.Port])})
	}
	return servers
}

// token returns a signed token with claims.
func token(t *testing.T, claims any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// ask sends a request with a query, until the answer is not that the client
// should wait. It returns the status and the parsed body.
func (s server) ask(t *testing.T, route, token, query string, parameters ...string) (int, map[string]any) {
	t.Helper()
	values := url.Values{}
	if query != "" {
		values.Set("query", query)
	}
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+route+"?"+values.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		var body map[string]any
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil {
			t.Fatalf("%s %s: %v: %s", route, query, err, text)
		}
		if body["error"] != "Continue wait" {
			return response.StatusCode, body
		}
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// project writes the files of a project to a new folder in the files of an
// image, where its configuration finds packages, and returns the folder.
func project(t *testing.T, image string, files map[string]string) string {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Join(image, "cube"), "project-")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// values returns the values of a member in the rows of an answer.
func values(body map[string]any, member string) string {
	var found []string
	rows, _ := body["data"].([]any)
	for _, row := range rows {
		found = append(found, fmt.Sprint(row.(map[string]any)[member]))
	}
	return strings.Join(found, " ")
}
