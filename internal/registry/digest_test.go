package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestDigest(t *testing.T) {
	host, ca := serveTLS(t)
	c := newTestClient(t, Options{CABundle: ca})
	opts := []remote.Option{remote.WithTransport(c.transport)}
	image := pushImage(t, host+"/demo/cube", opts, "image")
	index := pushIndex(t, host+"/demo/cube", opts, "index")

	for tag, want := range map[string]string{"image": image, "index": index} {
		got, err := c.Digest(t.Context(), host+"/demo/cube", tag)
		if err != nil || got != want {
			t.Errorf("Digest(%q) = %q, %v, want %q", tag, got, err, want)
		}
	}
	_, err := c.Digest(t.Context(), host+"/demo/cube", "gone")
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("error %v, want ErrNotFound", err)
	}
	if want := "repository demo/cube: tag gone not found"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}

	got, err := c.Digests(t.Context(), host+"/demo/cube", []string{"index", "image", "gone", "image"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"image": image, "index": index}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDigestFallsBackToGet(t *testing.T) {
	const manifest = `{"schemaVersion":2}`
	const want = "sha256:bafebd36189ad3688b7b3915ea55d461e0bfcfbdde11e54b0a123999fb6be50f"
	other := "sha256:" + strings.Repeat("0", 64)
	tests := map[string]struct {
		head   int
		header string // Docker-Content-Digest of the GET
		get    int
		is     error
	}{
		"no header":    {head: http.StatusOK, get: http.StatusOK},
		"no HEAD":      {head: http.StatusMethodNotAllowed, get: http.StatusOK},
		"wrong digest": {head: http.StatusOK, get: http.StatusOK, header: other, is: ErrUnreachable},
		"deleted":      {head: http.StatusOK, get: http.StatusNotFound, is: ErrNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			host := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(tt.head)
					return
				}
				if tt.header != "" {
					w.Header().Set(digestHeader, tt.header)
				}
				w.WriteHeader(tt.get)
				io.WriteString(w, manifest)
			})
			got, err := newTestClient(t, Options{PlainHTTP: true}).Digest(t.Context(), host+"/demo/cube", "v1")
			if !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if err == nil && got != want {
				t.Errorf("digest %q, want %q", got, want)
			}
		})
	}
}

func TestDigestTooLarge(t *testing.T) {
	host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.Copy(w, io.LimitReader(zeros{}, maxManifest+1))
		}
	})
	_, err := newTestClient(t, Options{PlainHTTP: true}).Digest(t.Context(), host+"/demo/cube", "v1")
	if want := "registry " + host + ": manifest too large"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestDigestRejectsInvalidTags(t *testing.T) {
	c := newTestClient(t, Options{})
	for _, tag := range []string{"", "a/b", "../x", "-a", "sha256:abc", strings.Repeat("a", 129)} {
		if _, err := c.Digest(t.Context(), "127.0.0.1:1/demo", tag); !errors.Is(err, ErrInvalidName) {
			t.Errorf("Digest(%q) error %v, want ErrInvalidName", tag, err)
		}
		if _, err := c.Digests(t.Context(), "127.0.0.1:1/demo", []string{tag}, 1); !errors.Is(err, ErrInvalidName) {
			t.Errorf("Digests(%q) error %v, want ErrInvalidName", tag, err)
		}
	}
}

func TestDigestsLimitConcurrencyAndStopOnError(t *testing.T) {
	var running, peak, total atomic.Int32
	host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if now := running.Add(1); now > peak.Load() {
			peak.Store(now)
		}
		defer running.Add(-1)
		total.Add(1)
		time.Sleep(5 * time.Millisecond)
		if strings.HasSuffix(r.URL.Path, "/t3") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set(digestHeader, "sha256:"+strings.Repeat("a", 64))
	})
	tags := make([]string, 200)
	for i := range tags {
		tags[i] = fmt.Sprint("t", i)
	}
	_, err := newTestClient(t, Options{PlainHTTP: true}).Digests(t.Context(), host+"/demo/cube", tags, 3)
	if want := "registry " + host + ": unexpected status 503"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if peak.Load() > 3 {
		t.Errorf("%d requests at a time, want at most 3", peak.Load())
	}
	if total.Load() >= 200 {
		t.Error("all tags were requested despite an error")
	}
}

// TestRedirects checks that a redirect to a private address is rejected.
func TestRedirects(t *testing.T) {
	host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	})
	_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
	if want := "registry " + host + ": redirects to a private address"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
