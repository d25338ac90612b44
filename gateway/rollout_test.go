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
)

// rudePod answers like a server whose connections break: it may close one when it is idle, and
// reset one before it answers.
type rudePod struct {
	net.Listener
	served atomic.Int64
	gone   atomic.Bool
}

func (w *world) newRudePod() *rudePod {
	w.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(podIP(w), "0"))
	if err != nil {
		w.Fatal(err)
	}
	p := &rudePod{Listener: l}
	w.Cleanup(func() { _ = l.Close() })
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

func (p *rudePod) serve(conn *net.TCPConn) {
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
		if rand.IntN(50) == 0 { // the request is lost, the answer never comes
			_ = conn.SetLinger(0)
			return
		}
		p.served.Add(1)
		answer := r.Method + " " + r.URL.Query().Get("n") + " " + string(body)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		if rand.IntN(20) == 0 || p.gone.Load() { // an idle connection that is closed without a word
			_ = conn.SetLinger(0)
			return
		}
	}
}

// TestRolling: journey b. Endpoints come and go, refuse and reset; no request fails, and none
// gets another's answer.
func TestRolling(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	w.routed("sales", "/cubejs-api")
	stop := make(chan struct{})
	var changes sync.WaitGroup
	var pods atomic.Int64
	changes.Go(func() {
		var live []func()
		add := func() {
			p := w.newRudePod()
			drop := w.endpoint("sales-production", p.Addr().String())
			pods.Add(1)
			abrupt := rand.IntN(2) == 0
			live = append(live, func() {
				if abrupt { // the pod is dead before anybody says so
					p.gone.Store(true)
					_ = p.Close()
					time.Sleep(50 * time.Millisecond)
					drop()
					return
				}
				drop()
				time.AfterFunc(2*time.Second, func() { p.gone.Store(true); _ = p.Close() })
			})
		}
		add()
		add()
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			add()
			live[0]()
			live = live[1:]
		}
	})
	data := w.data("sales-production")
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
				got := w.ask(w.http, method, w.url("sales", "/cubejs-api/v1/load?n="+n), data, strings.NewReader(body))
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
	changes.Wait()
	t.Logf("%d requests, %d failed, %d pods", total, failed.Load(), pods.Load())
}

// TestWaitsForAPod: a request waits, no longer than it may, and only so many do.
func TestWaitsForAPod(t *testing.T) {
	w := newWorld(t, func(c *gateway.Config) { c.WaitTimeout, c.MaxWaiting = 2*time.Second, 3 })
	w.deployment("sales", nil)
	w.routed("sales", "/cubejs-api")
	data, url := w.data("sales-production"), w.url("sales", "/cubejs-api/v1/load")
	var answers []answer
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := time.Now()
	for range 5 {
		all.Go(func() {
			got := w.ask(w.http, "POST", url, data, strings.NewReader("x"))
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
	if took := time.Since(begun); busy != 2 || took < 2*time.Second || took > 4*time.Second {
		t.Errorf("%d did not wait; took %s", busy, took)
	}
	late := make(chan answer)
	go func() { late <- w.ask(w.http, "POST", url, data, strings.NewReader("x")) }()
	time.Sleep(200 * time.Millisecond)
	w.serve("sales-production", nil)
	if got := <-late; got.status != 200 {
		t.Errorf("a pod came, and the answer is %d %s", got.status, got.body)
	}
}

// TestWakes: a request to an environment that sleeps asks for it to wake, one to any that may
// sleep says that it is used, and one without a token does neither.
func TestWakes(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil, "asleep", "awake", "stranger")
	w.serve("sales-stg-1", nil)
	w.serve("sales-production", nil)
	for _, name := range []string{"sales-stg-0", "sales-stg-2"} {
		e := &v1alpha1.Environment{}
		w.get(name, e)
		meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsleep})
		if err := w.kube.Status().Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/cubejs-api", "/dev-mode/asleep/cubejs-api", "/dev-mode/awake/cubejs-api", "/dev-mode/stranger/cubejs-api"} {
		w.routed("sales", path)
	}
	preflight := w.ask(w.http, "OPTIONS", w.url("sales", "/dev-mode/stranger/cubejs-api/v1/load"), "", nil, "Origin", "x", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if preflight.status != 204 || preflight.header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", preflight.status, preflight.header)
	}
	woken := make(chan answer)
	go func() {
		woken <- w.ask(w.http, "GET", w.url("sales", "/dev-mode/asleep/cubejs-api/v1/load"), w.data("sales-stg-0"), nil)
	}()
	annotated := func(name, annotation string) bool {
		e := &v1alpha1.Environment{}
		w.get(name, e)
		at, err := time.Parse(time.RFC3339, e.Annotations[annotation])
		return err == nil && time.Since(at) < time.Minute
	}
	w.eventually("the wake-up", func() bool { return annotated("sales-stg-0", v1alpha1.AnnotationWakeRequested) })
	w.serve("sales-stg-0", nil)
	if got := <-woken; got.status != 200 {
		t.Errorf("woken: %d %s", got.status, got.body)
	}
	for range 5 {
		w.ask(w.http, "GET", w.url("sales", "/dev-mode/awake/cubejs-api/v1/load"), w.data("sales-stg-1"), nil)
		w.ask(w.http, "GET", w.url("sales", "/cubejs-api/v1/load"), w.data("sales-production"), nil)
	}
	w.eventually("use", func() bool { return annotated("sales-stg-1", v1alpha1.AnnotationLastUsed) })
	before := &v1alpha1.Environment{}
	w.get("sales-stg-1", before)
	for range 5 {
		w.ask(w.http, "GET", w.url("sales", "/dev-mode/awake/cubejs-api/v1/load"), w.data("sales-stg-1"), nil)
	}
	time.Sleep(300 * time.Millisecond)
	after := &v1alpha1.Environment{}
	w.get("sales-stg-1", after)
	if before.ResourceVersion != after.ResourceVersion || before.Generation != 1 {
		t.Errorf("written more than once, or the spec was: %s, %s", before.ResourceVersion, after.ResourceVersion)
	}
	for name, annotation := range map[string]string{"sales-stg-1": v1alpha1.AnnotationWakeRequested, "sales-production": v1alpha1.AnnotationLastUsed, "sales-stg-2": v1alpha1.AnnotationWakeRequested} {
		if annotated(name, annotation) {
			t.Errorf("%s has %s", name, annotation)
		}
	}
}

// TestStreams: what a pod has sent arrives before it is done, and a caller that goes takes its
// request along.
func TestStreams(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	next, gone := make(chan struct{}), make(chan struct{})
	w.serve("sales-production", func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			close(gone)
			return
		}
		for i := range 3 {
			fmt.Fprintf(rw, "line %d\n", i)
			rw.(http.Flusher).Flush()
			<-next
		}
	})
	w.routed("sales", "/cubejs-api")
	for _, c := range []*http.Client{w.http, w.client(true)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url("sales", "/cubejs-api/v1/cubesql"), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", w.data("sales-production"))
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
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url("sales", "/cubejs-api/v1/load"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", w.data("sales-production"))
	time.AfterFunc(200*time.Millisecond, cancel)
	if response, err := w.http.Do(r); err == nil {
		_ = response.Body.Close()
		t.Error("answered")
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the pod was not told")
	}
}

// TestWebSocket: both directions, with and without a token in the header; the pod checks the
// first message.
func TestWebSocket(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	w.serve("sales-production", func(rw http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			rw.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		conn, buffered, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	})
	w.routed("sales", "/cubejs-api")
	for name, tc := range map[string]struct {
		path, token string
		status      int
	}{
		"below the base path":     {"/cubejs-api/", "", 101},
		"at the root":             {"/", "", 101},
		"with a data token":       {"/", w.data("sales-production"), 101},
		"with a metadata token":   {"/", w.meta("sales-production"), 403},
		"metadata, at meta":       {"/cubejs-api/v1/meta", w.meta("sales-production"), 403},
		"with another's token":    {"/", "x.y.z", 401},
		"elsewhere":               {"/readyz", "", 404},
		"of an unknown branch":    {"/dev-mode/x/", "", 404},
		"of a branch, not opened": {"/dev-mode/x/cubejs-api/", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url("sales", tc.path), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Key": {"x"}}
			if tc.token != "" {
				r.Header.Set("Authorization", tc.token)
			}
			response, err := w.http.Do(r)
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

// TestDrains: what runs when the gateway is told to end is finished, and nothing new is taken.
func TestDrains(t *testing.T) {
	w := newWorld(t, nil)
	w.deployment("sales", nil)
	begun := make(chan struct{})
	w.serve("sales-production", func(rw http.ResponseWriter, _ *http.Request) {
		close(begun)
		time.Sleep(time.Second)
		_, _ = io.WriteString(rw, "done")
	})
	w.routed("sales", "/cubejs-api")
	running := make(chan answer)
	go func() {
		running <- w.ask(w.http, "POST", w.url("sales", "/cubejs-api/v1/load"), w.data("sales-production"), nil)
	}()
	<-begun
	go w.stop()
	if got := <-running; got.status != 200 || got.body != "done" {
		t.Errorf("%d %s", got.status, got.body)
	}
	w.stop()
	if conn, err := net.DialTimeout("tcp", w.addresses.HTTPS.String(), time.Second); err == nil {
		_ = conn.Close()
		t.Error("still listens")
	}
}
