package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// flakyPod is a server whose connections break: it closes idle connections, and resets connections
// before it responds.
type flakyPod struct {
	net.Listener
	served  atomic.Int64
	stopped atomic.Bool
}

func (f *fixture) newFlakyPod() *flakyPod {
	f.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(apitest.PodIP(f), "0"))
	if err != nil {
		f.Fatal(err)
	}
	p := &flakyPod{Listener: l}
	f.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn.(*net.TCPConn))
		}
	}()
	return p
}

func (p *flakyPod) serve(conn *net.TCPConn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if rand.IntN(50) == 0 { // reset before the response
			_ = conn.SetLinger(0)
			return
		}
		p.served.Add(1)
		answer := r.Method + " " + r.URL.Query().Get("n") + " " + string(body)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		if rand.IntN(20) == 0 || p.stopped.Load() { // reset while idle
			_ = conn.SetLinger(0)
			return
		}
	}
}

// replacePods replaces the pods of an environment, one every 100 ms, until stop is closed. It
// returns the number of pods.
func (f *fixture) replacePods(environment string, stop <-chan struct{}) (count int) {
	var live []func()
	add := func() {
		p := f.newFlakyPod()
		drop := f.addEndpoint(environment, p.Addr().String())
		count++
		abrupt := rand.IntN(2) == 0
		live = append(live, func() {
			if abrupt { // the pod fails before its endpoint is removed
				p.stopped.Store(true)
				_ = p.Close()
				time.Sleep(50 * time.Millisecond)
				drop()
				return
			}
			drop()
			time.AfterFunc(2*time.Second, func() { p.stopped.Store(true); _ = p.Close() })
		})
	}
	add()
	add()
	for {
		select {
		case <-stop:
			return count
		case <-time.After(100 * time.Millisecond):
		}
		add()
		live[0]()
		live = live[1:]
	}
}

// TestNoRequestFailsDuringARollout: while pods are replaced, refuse and reset connections, every
// request receives its own response.
func TestNoRequestFailsDuringARollout(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	f.waitForRoute("sales", "/cubejs-api")
	stop, pods := make(chan struct{}), make(chan int)
	go func() { pods <- f.replacePods("sales-production", stop) }()
	data := f.dataToken("sales-production")
	var failed atomic.Int64
	var callers sync.WaitGroup
	const total, parallel = 2400, 12
	for caller := range parallel {
		callers.Go(func() {
			for i := range total / parallel {
				n := strconv.Itoa(caller*total + i)
				method, body := "POST", "query "+n
				if i%3 == 0 {
					method, body = "GET", ""
				}
				got := f.do(f.http, method, f.url("sales", "/cubejs-api/v1/load?n="+n), data, strings.NewReader(body))
				if want := method + " " + n + " " + body; got.status != 200 || got.body != want {
					failed.Add(1)
					t.Errorf("%d %q, want %q", got.status, got.body, want)
				}
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
	}
	callers.Wait()
	close(stop)
	t.Logf("%d requests, %d failed, %d pods", total, failed.Load(), <-pods)
}

// TestRequestsWaitForAPod: up to MaxWaiting requests wait for a pod, for WaitTimeout at most.
func TestRequestsWaitForAPod(t *testing.T) {
	f := newFixture(t, func(c *gateway.Config) { c.WaitTimeout, c.MaxWaiting = 2*time.Second, 3 })
	f.createDeployment("sales", nil)
	f.waitForRoute("sales", "/cubejs-api")
	data, url := f.dataToken("sales-production"), f.url("sales", "/cubejs-api/v1/load")
	var answers []answer
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for range 5 {
		all.Go(func() {
			got := f.do(f.http, "POST", url, data, strings.NewReader("x"))
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, got)
		})
	}
	all.Wait()
	busy := 0
	for _, got := range answers {
		if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if strings.Contains(got.body, "too many requests wait") {
			busy++
		}
	}
	if took := time.Since(start); busy != 2 || took < 2*time.Second || took > 4*time.Second {
		t.Errorf("%d did not wait; took %s", busy, took)
	}
	late := make(chan answer)
	go func() { late <- f.do(f.http, "POST", url, data, strings.NewReader("x")) }()
	time.Sleep(200 * time.Millisecond)
	f.startPod("sales-production", nil)
	if got := <-late; got.status != 200 {
		t.Errorf("after a pod became ready: %d %s", got.status, got.body)
	}
}

// TestWakeAndUsage: a request to a sleeping environment requests that it wakes, a request to an
// environment that may sleep records its use, and an unauthenticated request does neither.
func TestWakeAndUsage(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil, "asleep", "awake", "unauthenticated")
	f.startPod("sales-stg-1", nil)
	f.startPod("sales-production", nil)
	for _, name := range []string{"sales-stg-0", "sales-stg-2"} {
		e := &v1alpha1.Environment{}
		f.get(name, e)
		meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsleep})
		if err := f.kube.Status().Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/cubejs-api", "/dev-mode/asleep/cubejs-api", "/dev-mode/awake/cubejs-api", "/dev-mode/unauthenticated/cubejs-api"} {
		f.waitForRoute("sales", path)
	}
	preflight := f.do(f.http, "OPTIONS", f.url("sales", "/dev-mode/unauthenticated/cubejs-api/v1/load"), "", nil, "Origin", "x", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if preflight.status != 204 || preflight.header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", preflight.status, preflight.header)
	}
	woken := make(chan answer)
	go func() {
		woken <- f.do(f.http, "GET", f.url("sales", "/dev-mode/asleep/cubejs-api/v1/load"), f.dataToken("sales-stg-0"), nil)
	}()
	annotated := func(name, annotation string) bool {
		e := &v1alpha1.Environment{}
		f.get(name, e)
		at, err := time.Parse(time.RFC3339, e.Annotations[annotation])
		return err == nil && time.Since(at) < time.Minute
	}
	f.eventually("the wake-up", func() bool { return annotated("sales-stg-0", v1alpha1.AnnotationWakeRequested) })
	f.startPod("sales-stg-0", nil)
	if got := <-woken; got.status != 200 {
		t.Errorf("woken: %d %s", got.status, got.body)
	}
	for range 5 {
		f.do(f.http, "GET", f.url("sales", "/dev-mode/awake/cubejs-api/v1/load"), f.dataToken("sales-stg-1"), nil)
		f.do(f.http, "GET", f.url("sales", "/cubejs-api/v1/load"), f.dataToken("sales-production"), nil)
	}
	f.eventually("use", func() bool { return annotated("sales-stg-1", v1alpha1.AnnotationLastUsed) })
	before := &v1alpha1.Environment{}
	f.get("sales-stg-1", before)
	for range 5 {
		f.do(f.http, "GET", f.url("sales", "/dev-mode/awake/cubejs-api/v1/load"), f.dataToken("sales-stg-1"), nil)
	}
	time.Sleep(300 * time.Millisecond)
	after := &v1alpha1.Environment{}
	f.get("sales-stg-1", after)
	if before.ResourceVersion != after.ResourceVersion || before.Generation != 1 {
		t.Errorf("written more than once, or the spec was written: %s, %s", before.ResourceVersion, after.ResourceVersion)
	}
	for name, annotation := range map[string]string{"sales-stg-1": v1alpha1.AnnotationWakeRequested, "sales-production": v1alpha1.AnnotationLastUsed, "sales-stg-2": v1alpha1.AnnotationWakeRequested} {
		if annotated(name, annotation) {
			t.Errorf("%s has %s", name, annotation)
		}
	}
}

// TestResponsesAreStreamed: a response is forwarded while the pod writes it, and a disconnected
// client cancels the request to the pod.
func TestResponsesAreStreamed(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	next, canceled := make(chan struct{}), make(chan struct{})
	f.startPod("sales-production", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			close(canceled)
			return
		}
		for i := range 3 {
			fmt.Fprintf(w, "line %d\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	f.waitForRoute("sales", "/cubejs-api")
	for _, c := range []*http.Client{f.http, f.client(true)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url("sales", "/cubejs-api/v1/cubesql"), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", f.dataToken("sales-production"))
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(response.Body)
		for i := range 3 {
			if !lines.Scan() || lines.Text() != fmt.Sprintf("line %d", i) {
				t.Fatalf("%q, %v", lines.Text(), lines.Err())
			}
			next <- struct{}{}
		}
		_ = response.Body.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url("sales", "/cubejs-api/v1/load"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", f.dataToken("sales-production"))
	time.AfterFunc(200*time.Millisecond, cancel)
	if response, err := f.http.Do(r); err == nil {
		_ = response.Body.Close()
		t.Error("the canceled request was answered")
	}
	select {
	case <-canceled:
	case <-time.After(5 * time.Second):
		t.Error("the request to the pod was not canceled")
	}
}

// echo accepts a WebSocket and echoes what it receives.
func echo(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

// TestWebSockets: WebSockets are proxied with a data token, or without a token in the header; the
// pod checks the first message.
func TestWebSockets(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	f.startPod("sales-production", echo)
	f.waitForRoute("sales", "/cubejs-api")
	for name, tc := range map[string]struct {
		path, token string
		status      int
	}{
		"below the base path":     {"/cubejs-api/", "", 101},
		"at the root":             {"/", "", 101},
		"with a data token":       {"/", f.dataToken("sales-production"), 101},
		"with a metadata token":   {"/", f.metadataToken("sales-production"), 403},
		"metadata, metadata path": {"/cubejs-api/v1/meta", f.metadataToken("sales-production"), 403},
		"with an invalid token":   {"/", "x.y.z", 401},
		"outside the base path":   {"/readyz", "", 404},
		"of an unknown branch":    {"/dev-mode/x/", "", 404},
		"below an unknown branch": {"/dev-mode/x/cubejs-api/", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url("sales", tc.path), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {"x"}}
			if tc.token != "" {
				r.Header.Set("Authorization", tc.token)
			}
			response, err := f.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.status {
				t.Fatalf("%d, want %d", response.StatusCode, tc.status)
			}
			if tc.status != 101 {
				return
			}
			conn := response.Body.(io.ReadWriteCloser)
			for _, message := range []string{"hello", strings.Repeat("x", 100_000)} {
				go func() { _, _ = io.WriteString(conn, message) }()
				got := make([]byte, len(message))
				if _, err := io.ReadFull(conn, got); err != nil || string(got) != message {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
}

// TestShutdownDrains: on shutdown, running requests finish and new connections are refused.
func TestShutdownDrains(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	start := make(chan struct{})
	f.startPod("sales-production", func(w http.ResponseWriter, _ *http.Request) {
		close(start)
		time.Sleep(time.Second)
		_, _ = io.WriteString(w, "done")
	})
	f.waitForRoute("sales", "/cubejs-api")
	running := make(chan answer)
	go func() {
		running <- f.do(f.http, "POST", f.url("sales", "/cubejs-api/v1/load"), f.dataToken("sales-production"), nil)
	}()
	<-start
	go f.stop()
	if got := <-running; got.status != 200 || got.body != "done" {
		t.Errorf("%d %s", got.status, got.body)
	}
	f.stop()
	if conn, err := net.DialTimeout("tcp", f.addresses.HTTPS.String(), time.Second); err == nil {
		_ = conn.Close()
		t.Error("still listening")
	}
}
