package registry

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	fake "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// newTestClient returns a Client with the options.
func newTestClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// serve starts a plain-HTTP server that responds 200 to /v2/ and calls the
// handler for other paths; it returns "host:port".
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// serveTLS starts go-containerregistry's in-process registry over TLS; it
// returns "host:port" and the CA that signed its certificate.
func serveTLS(t *testing.T) (host string, ca []byte) {
	t.Helper()
	silent := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(fake.New(fake.Logger(silent)))
	server.Config.ErrorLog = silent // handshakes that fail on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return strings.TrimPrefix(server.URL, "https://"), ca
}

// pushImage pushes a small random image under the tags and returns its digest.
func pushImage(t *testing.T, repository string, opts []remote.Option, tags ...string) string {
	t.Helper()
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	push(t, repository, tags, func(ref name.Reference) error { return remote.Write(ref, image, opts...) })
	return digestOf(t, image)
}

// pushIndex pushes a two-platform index and returns the index's digest.
func pushIndex(t *testing.T, repository string, opts []remote.Option, tags ...string) string {
	t.Helper()
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	push(t, repository, tags, func(ref name.Reference) error { return remote.WriteIndex(ref, index, opts...) })
	return digestOf(t, index)
}

func push(t *testing.T, repository string, tags []string, write func(name.Reference) error) {
	t.Helper()
	for _, tag := range tags {
		ref, err := name.ParseReference(repository + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(ref); err != nil {
			t.Fatal(err)
		}
	}
}

func digestOf(t *testing.T, d interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	h, err := d.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}
