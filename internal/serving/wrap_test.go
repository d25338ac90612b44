package serving

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quoin-dev/quoin/internal/serving/logtest"
)

// wantError checks that a response is a JSON error whose message contains a text.
func wantError(t *testing.T, resp *http.Response, status int, text string) {
	t.Helper()
	body := map[string]string{}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	if resp.StatusCode != status || resp.Header.Get("Content-Type") != "application/json" || len(body) != 1 || !strings.Contains(body["error"], text) {
		t.Errorf("%d %q %q, want %d with %q", resp.StatusCode, resp.Header.Get("Content-Type"), body, status, text)
	}
}

// exposition returns the response of /metrics.
func exposition(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestRequestID(t *testing.T) {
	tests := []struct {
		name, incoming string
		accepted       bool
	}{
		{"none", "", false},
		{"one character", "a", true},
		{"all kinds of characters", "aZ09_-", true},
		{"64 characters", strings.Repeat("x", 64), true},
		{"65 characters", strings.Repeat("x", 65), false},
		{"space", "a b", false},
		{"trailing newline", "a\n", false},
		{"markup", "<a>", false},
		{"another alphabet", "é", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header["X-Request-Id"] = []string{tt.incoming}
			id := ""
			w := httptest.NewRecorder()
			Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { id = RequestID(r.Context()) }), WrapOptions{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
			if (id == tt.incoming) != tt.accepted || !requestIDForm.MatchString(id) {
				t.Errorf("id %q for %q", id, tt.incoming)
			}
			if got := w.Header().Get("X-Request-Id"); got != id {
				t.Errorf("response header %q, id in the handler %q", got, id)
			}
		})
	}
}

func TestRemoteAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := []struct {
		name, peer string
		forwarded  []string
		trusted    []netip.Prefix
		want       string
	}{
		{"no proxy", "192.0.2.1:1", nil, trusted, "192.0.2.1"},
		{"no trusted proxies", "10.0.0.1:1", []string{"192.0.2.1"}, nil, "10.0.0.1"},
		{"spoofed by a client", "192.0.2.1:1", []string{"203.0.113.9"}, trusted, "192.0.2.1"},
		{"trusted proxy", "10.0.0.1:1", []string{"192.0.2.1"}, trusted, "192.0.2.1"},
		{"spoofed through a proxy", "10.0.0.1:1", []string{"203.0.113.9, 192.0.2.1"}, trusted, "192.0.2.1"},
		{"spoofed in a separate header", "10.0.0.1:1", []string{"203.0.113.9", "192.0.2.1"}, trusted, "192.0.2.1"},
		{"trusted address claimed by a client", "10.0.0.1:1", []string{"10.9.9.9, 192.0.2.1"}, trusted, "192.0.2.1"},
		{"two proxies", "10.0.0.1:1", []string{"192.0.2.1, 10.0.0.2"}, trusted, "192.0.2.1"},
		{"only trusted addresses", "10.0.0.1:1", []string{"10.0.0.3,10.0.0.2"}, trusted, "10.0.0.3"},
		{"no header", "10.0.0.1:1", nil, trusted, "10.0.0.1"},
		{"malformed entry", "10.0.0.1:1", []string{"192.0.2.1, unknown"}, trusted, "10.0.0.1"},
		{"with port", "10.0.0.1:1", []string{"192.0.2.1:99"}, trusted, "192.0.2.1"},
		{"IPv6", "[fd00::1]:1", []string{"[2001:db8::1]:99"}, trusted, "2001:db8::1"},
		{"IPv6 without port", "[fd00::1]:1", []string{"[2001:db8::1]"}, trusted, "2001:db8::1"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:1", []string{"::ffff:192.0.2.1"}, trusted, "192.0.2.1"},
		{"IPv6 with zone", "[fd00::1%eth0]:1", []string{"192.0.2.1"}, trusted, "192.0.2.1"},
		{"malformed peer", "@", []string{"192.0.2.1"}, trusted, "invalid IP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			var got netip.Addr
			Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = RemoteAddress(r.Context()) }),
				WrapOptions{TrustedProxies: tt.trusted, Log: slog.New(slog.DiscardHandler)}).ServeHTTP(httptest.NewRecorder(), r)
			if got.String() != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestIsTrusted(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for peer, want := range map[string]bool{
		"10.0.0.1:1": true, "[::ffff:10.0.0.1]:1": true, "[fd00::1%eth0]:1": true,
		"192.0.2.1:1": false, "@": false,
	} {
		if got := IsTrusted(peer, trusted); got != want {
			t.Errorf("%s: got %t, want %t", peer, got, want)
		}
		if IsTrusted(peer, nil) {
			t.Errorf("%s is trusted without trusted proxies", peer)
		}
	}
}

func TestHeaders(t *testing.T) {
	handler := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cached" {
			w.Header().Set("Cache-Control", "max-age=60")
		}
	}), WrapOptions{Log: slog.New(slog.DiscardHandler)})
	for path, cache := range map[string]string{"/": "no-store", "/cached": "max-age=60"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		w.Header().Del("X-Request-Id")
		want := http.Header{
			"Cache-Control": {cache}, "Strict-Transport-Security": {"max-age=31536000"}, "X-Content-Type-Options": {"nosniff"},
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestAccessLogAndMetrics(t *testing.T) {
	log, registry := &logtest.Buffer{}, prometheus.NewRegistry()
	handler := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Annotate(r.Context(), "account", "overwritten")
		Annotate(r.Context(), "account", "acme")
		Annotate(r.Context(), "principal", strings.Repeat("p", 300))
		if r.URL.Path != "/unknown" {
			Annotate(r.Context(), AnnotationRoute, "GET /a/{id}")
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	}), WrapOptions{Log: log.Logger(), Registerer: registry})

	r := httptest.NewRequest(http.MethodGet, "https://acme.example.com/a/1?token=QUERYSECRET", nil)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("Authorization", "Bearer HEADERSECRET")
	r.Header.Set("Cookie", "c=COOKIESECRET")
	r.Header.Set("Referer", "https://acme.example.com/?token=REFERERSECRET")
	r.Header.Set("User-Agent", strings.Repeat("u", 300))
	r.Header.Set("X-Request-Id", "me")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("BREW", "/unknown", nil))

	if strings.Contains(log.String(), "SECRET") {
		t.Errorf("the log contains a secret: %s", log)
	}
	lines := log.Lines(t, "Served request")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	got := lines[0]
	delete(got, "time")
	if _, ok := got["durationSeconds"].(float64); !ok {
		t.Errorf("durationSeconds is %v", got["durationSeconds"])
	}
	delete(got, "durationSeconds")
	want := map[string]any{
		"level": "INFO", "msg": "Served request", "method": "GET", "path": "/a/1", "status": 418.0, "bytes": 15.0, "requestID": "me",
		"client": "192.0.2.1", "host": "acme.example.com", "userAgent": strings.Repeat("u", 256),
		"account": "acme", "principal": strings.Repeat("p", 256), "route": "GET /a/{id}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	exposed := exposition(t, registry)
	for _, line := range []string{
		"quoin_http_requests_in_flight 0",
		`quoin_http_requests_total{code="418",method="GET",route="GET /a/{id}"} 1`,
		`quoin_http_requests_total{code="418",method="other",route="none"} 1`,
		`quoin_http_request_duration_seconds_count{method="GET",route="GET /a/{id}"} 1`,
		`quoin_http_request_duration_seconds_count{method="other",route="none"} 1`,
	} {
		if !strings.Contains(exposed, line+"\n") {
			t.Errorf("no metric %s in %s", line, exposed)
		}
	}
}

func TestPanics(t *testing.T) {
	t.Run("before the response", func(t *testing.T) {
		log, registry := &logtest.Buffer{}, prometheus.NewRegistry()
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Request-Id", "me")
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			w.Header().Set("ETag", `"1"`)
			panic("oh no")
		}), WrapOptions{Log: log.Logger(), Registerer: registry}).ServeHTTP(w, r)
		wantError(t, w.Result(), http.StatusInternalServerError, "internal error; request id me")
		if w.Header().Get("Content-Length") != "" || w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers are %v", w.Header())
		}
		panics := log.Lines(t, "Handler panicked")
		if len(panics) != 1 || panics[0]["requestID"] != "me" || !strings.Contains(panics[0]["stack"].(string), "TestPanics") {
			t.Errorf("panics in the log: %v", panics)
		}
		if lines := log.Lines(t, "Served request"); len(lines) != 1 || lines[0]["status"] != 500.0 || lines[0]["level"] != "WARN" {
			t.Errorf("access log: %v", lines)
		}
		if line := `quoin_http_requests_total{code="500",method="GET",route="none"} 1`; !strings.Contains(exposition(t, registry), line) {
			t.Errorf("no metric %s", line)
		}
	})
	for name, handler := range map[string]http.HandlerFunc{
		"after the response started": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "part"); panic("oh no") },
		"after flushing": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			panic("oh no")
		},
		"to abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(error); !errors.Is(got, http.ErrAbortHandler) {
					t.Errorf("panics with %v, want http.ErrAbortHandler", got)
				}
			}()
			Wrap(handler, WrapOptions{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		})
	}
}

func TestBodyLimit(t *testing.T) {
	tests := []struct {
		name     string
		body     string
		declared bool
		status   int
		reads    bool
	}{
		{"declared, at the limit", "12345678", true, http.StatusOK, true},
		{"declared, over it", "123456789", true, http.StatusRequestEntityTooLarge, false},
		{"not declared, at the limit", "12345678", false, http.StatusOK, true},
		{"not declared, over it", "123456789", false, http.StatusRequestEntityTooLarge, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reads := false
			handler := Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reads = true
				if _, err := io.ReadAll(r.Body); err != nil {
					WriteReadError(w, err)
				}
			}), WrapOptions{BodyLimit: 8, Log: slog.New(slog.DiscardHandler)})
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))
			if !tt.declared {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if reads != tt.reads {
				t.Errorf("handler reached: %t, want %t", reads, tt.reads)
			}
			if tt.status != http.StatusOK {
				wantError(t, w.Result(), tt.status, "larger than 8 bytes")
			} else if w.Code != tt.status {
				t.Errorf("%d, want %d", w.Code, tt.status)
			}
		})
	}
	t.Run("other read errors", func(t *testing.T) {
		w := httptest.NewRecorder()
		WriteReadError(w, errors.New("SECRET"))
		if strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("response %s", w.Body)
		}
		wantError(t, w.Result(), http.StatusBadRequest, "cannot be read")
	})
}

func TestInFlightLimit(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	handler := Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}), WrapOptions{MaxInFlight: 1, Log: slog.New(slog.DiscardHandler)})
	serve := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	for range 2 {
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- serve() }()
		<-entered
		second := serve()
		wantError(t, second.Result(), http.StatusServiceUnavailable, "too many concurrent requests")
		if second.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", second.Header().Get("Retry-After"))
		}
		leave <- struct{}{}
		if got := <-first; got.Code != http.StatusOK {
			t.Errorf("the first request is answered with %d", got.Code)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2"} {
		w := httptest.NewRecorder()
		RetryAfter(w, wait)
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%s is %s, want %s", wait, got, want)
		}
	}
}

func TestOutsideOfWrap(t *testing.T) {
	ctx := t.Context()
	Annotate(ctx, "key", "value")
	if RequestID(ctx) != "" || RemoteAddress(ctx).IsValid() {
		t.Errorf("id %q, address %s", RequestID(ctx), RemoteAddress(ctx))
	}
}
