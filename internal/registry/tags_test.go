package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	fake "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestTagsOverTLS(t *testing.T) {
	host, ca := serveTLS(t)
	c := newTestClient(t, Options{CABundle: ca})
	opts := []remote.Option{remote.WithTransport(c.transport)}
	pushImage(t, host+"/demo/cube", opts, "v2", "v1", "latest")

	got, err := c.Tags(t.Context(), host+"/demo/cube")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"latest", "v1", "v2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTagsRejectsPlainHTTP(t *testing.T) {
	var authorized atomic.Bool
	host := serve(t, func(_ http.ResponseWriter, r *http.Request) { authorized.Store(true) })
	_, err := newTestClient(t, Options{}).Tags(t.Context(), host+"/demo/cube")
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	if want := "registry " + host + ": does not speak TLS"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if authorized.Load() {
		t.Error("a request was sent over plain HTTP")
	}
}

// pages serves the tags in pages of size, with the Link headers of link.
func pages(tags []string, size int, link func(r *http.Request, last string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := 0
		if last := r.URL.Query().Get("last"); last != "" {
			for start < len(tags) && tags[start] <= last {
				start++
			}
		}
		end := min(start+size, len(tags))
		if end < len(tags) {
			w.Header().Set("Link", link(r, tags[end-1]))
		}
		fmt.Fprintf(w, `{"name":"demo/cube","tags":["%s"]}`, strings.Join(tags[start:end], `","`))
	}
}

func TestTagsPages(t *testing.T) {
	all := make([]string, 25)
	for i := range all {
		all[i] = fmt.Sprintf("v%02d", i)
	}
	tests := map[string]func(r *http.Request, last string) string{
		"relative": func(_ *http.Request, last string) string {
			return fmt.Sprintf(`</v2/demo/cube/tags/list?last=%s&n=10>; rel="next"`, last)
		},
		"absolute": func(r *http.Request, last string) string {
			return fmt.Sprintf(`<http://%s/v2/demo/cube/tags/list?last=%s>; rel="next"`, r.Host, last)
		},
		"absolute with the wrong scheme": func(r *http.Request, last string) string {
			return fmt.Sprintf(`<https://%s/v2/demo/cube/tags/list?last=%s>; rel="next"`, r.Host, last)
		},
		"without rel": func(_ *http.Request, last string) string {
			return fmt.Sprintf(`<?last=%s>`, last)
		},
	}
	for name, link := range tests {
		t.Run(name, func(t *testing.T) {
			host := serve(t, pages(all, 10, link))
			got, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTagsOfUnusualResponses(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    []string
	}{
		"null tags": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"tags":null}`) },
			want:    []string{},
		},
		"link to itself": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", `<`+r.URL.RequestURI()+`>; rel="next"`)
				io.WriteString(w, `{"tags":["a"]}`)
			},
			want: []string{"a"},
		},
		"two links to each other": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				last := r.URL.Query().Get("last")
				w.Header().Set("Link", map[string]string{"": `<?last=a>`, "a": `<?last=b>`, "b": `<?last=a>`}[last])
				fmt.Fprintf(w, `{"tags":["t%s"]}`, last)
			},
			want: []string{"t", "ta", "tb"},
		},
		"invalid tags": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"tags":["a","../b","","c d","-e","a"]}`)
			},
			want: []string{"a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			host := serve(t, tt.handler)
			got, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// tagsError reads the tags of a server and checks the error; %s in text is the
// host.
func tagsError(t *testing.T, handler http.HandlerFunc, kind error, text string) {
	t.Helper()
	host := serve(t, handler)
	_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/cube")
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	if want := strings.ReplaceAll(text, "%s", host); err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestTagsRejectsInvalidResponses(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		is      error
		text    string
	}{
		"other host": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `<http://169.254.169.254/latest>; rel="next"`)
				io.WriteString(w, `{"tags":["a"]}`)
			},
			is: ErrUnreachable, text: "registry %s: the next page of tags is on another host",
		},
		"malformed link": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `/v2/next`)
				io.WriteString(w, `{"tags":["a"]}`)
			},
			is: ErrUnreachable, text: "registry %s: malformed Link header",
		},
		"HTML": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `<html>login</html>`) },
			is:      ErrUnreachable, text: "registry %s: the list of tags is not valid JSON of the distribution API",
		},
		"truncated": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"tags":["a"`) },
			is:      ErrUnreachable, text: "registry %s: connection closed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { tagsError(t, tt.handler, tt.is, tt.text) })
	}
}

func TestTagsLimits(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		is      error
		text    string
	}{
		"links that do not end": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				last, _ := strconv.Atoi(r.URL.Query().Get("last"))
				w.Header().Set("Link", fmt.Sprintf(`<?last=%d>`, last+1))
				io.WriteString(w, `{"tags":["a"]}`)
			},
			is: ErrUnreachable, text: "registry %s: the list of tags has too many pages",
		},
		"too many tags": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				tags := make([]string, MaxTags+1)
				for i := range tags {
					tags[i] = fmt.Sprint("t", i)
				}
				fmt.Fprintf(w, `{"tags":["%s"]}`, strings.Join(tags, `","`))
			},
			is: ErrTooManyTags, text: "repository demo/cube: more than 10000 tags",
		},
		"response too large": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"tags":["a"`)
				chunk := strings.Repeat(`,"a"`, 1<<14)
				for range 1 << 10 {
					if _, err := io.WriteString(w, chunk); err != nil {
						return
					}
				}
			},
			is: ErrUnreachable, text: "registry %s: response too large",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { tagsError(t, tt.handler, tt.is, tt.text) })
	}
}

func TestTagsHonoursContext(t *testing.T) {
	release := make(chan struct{})
	host := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })

	t.Run("request timeout", func(t *testing.T) {
		c := newTestClient(t, Options{PlainHTTP: true, Timeout: 50 * time.Millisecond})
		_, err := c.Tags(t.Context(), host+"/demo/cube")
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrUnreachable only", err)
		}
		if want := "registry " + host + ": timed out"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(ctx, host+"/demo/cube")
		if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrUnreachable and DeadlineExceeded", err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(ctx, host+"/demo/cube")
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("error %v, want Canceled only", err)
		}
	})
}

func TestTagsUserAgent(t *testing.T) {
	var agents atomic.Value
	handler := fake.New(fake.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents.Store(r.UserAgent())
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	_, err := newTestClient(t, Options{PlainHTTP: true}).Tags(t.Context(), host+"/demo/none")
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("error %v, want ErrNotFound", err)
	}
	if got := agents.Load(); got != DefaultUserAgent {
		t.Errorf("user agent %q, want %q", got, DefaultUserAgent)
	}
}
