// Package browser drives Chromium without a window, as a person uses a browser. Scripts of pages do not run.
package browser

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// timeout limits each step. It allows for a busy machine.
const timeout = 2 * time.Minute

// programs are the names of the program.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// audit returns the problems of a page.
//
//go:embed audit.js
var audit string

// Browser is a browser with cookies of its own.
type Browser struct {
	t   testing.TB
	ctx context.Context

	mu sync.Mutex
	// headers are those of the last response with a page, by the host of its URL.
	headers map[string]map[string]string
}

// Prepare skips the test if there is no browser. With CI set the test fails instead.
func Prepare(t testing.TB) (program string) {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("with CI set the tests with a browser must run: chromium is not installed")
	}
	t.Skip("SKIPPED LOUDLY: chromium is not installed (Debian: apt-get install chromium)")
	return ""
}

// Start starts a browser, which is stopped after the test. The servers are the addresses of servers by host:port in URLs: the first one is
// that to which the browser connects, and others are those of replicas behind it. The roots verify their certificates, and the browser
// trusts only those certificates.
func Start(t testing.TB, roots *x509.CertPool, servers map[string][]string) *Browser {
	t.Helper()
	program := Prepare(t)
	var trusted, rules []string
	for host, addresses := range servers {
		for _, address := range addresses {
			hash, err := certificateOf(roots, host, address)
			if err != nil {
				t.Fatalf("the certificate of %s: %v", host, err)
			}
			trusted = append(trusted, hash)
		}
		rules = append(rules, "MAP "+host+" "+addresses[0])
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(timeout),
		chromedp.NoSandbox, // as root there is none
		chromedp.Flag("ignore-certificate-errors-spki-list", strings.Join(trusted, ",")),
		chromedp.Flag("host-resolver-rules", strings.Join(rules, ",")),
		chromedp.Flag("disable-dev-shm-usage", true),
	)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { stop(); stopAllocator() })
	b := &Browser{t: t, ctx: ctx, headers: map[string]map[string]string{}}
	// The first call starts the browser, which lives as long as the context of the call.
	err := chromedp.Listen(ctx, b.observe)
	if err == nil {
		err = chromedp.Do(ctx, call(network.Enable, network.EnableParams{}),
			call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	if err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return b
}

// call returns an action that sends a command.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, parameters)
		return err
	})
}

// certificateOf returns the hash of the public key of the certificate that a server has for a host.
func certificateOf(roots *x509.CertPool, host, address string) (string, error) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return "", err
	}
	dialer := &net.Dialer{Timeout: timeout}
	connection, err := tls.DialWithDialer(dialer, "tcp", address, &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close() }()
	sum := sha256.Sum256(connection.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// observe keeps the headers of pages.
func (b *Browser) observe(event any) {
	received, ok := event.(*network.EventResponseReceived)
	if !ok || received.Type != network.ResourceTypeDocument {
		return
	}
	u, err := url.Parse(received.Response.URL)
	if err != nil {
		return
	}
	headers := map[string]string{}
	for name, value := range received.Response.Headers {
		headers[strings.ToLower(name)] = fmt.Sprint(value)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.headers[u.Host] = headers
}

// Header returns a header of the last page of a host.
func (b *Browser) Header(host, name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.headers[host][strings.ToLower(name)]
}

// do runs a step.
func (b *Browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v; the page is: %s", what, err, b.Text())
	}
}

// Open opens an address.
func (b *Browser) Open(address string) {
	b.t.Helper()
	b.do("open "+address, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Navigate(address)(ctx, t)
		for tries := 0; err != nil && strings.Contains(err.Error(), networkChanged) && tries < maxRetries; tries++ {
			_, err = chromedp.Navigate(address)(ctx, t)
		}
		return err
	}))
}

// networkChanged is the error of requests during which the machine gets or loses a network interface, such as one of a pod.
const networkChanged = "ERR_NETWORK_CHANGED"

// maxRetries is how often a page is loaded again after that error.
const maxRetries = 10

// Fill types a text into the empty field that a CSS selector selects.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.do("fill "+selector, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Click clicks the element that a CSS selector selects.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Await waits until the page shows a text.
func (b *Browser) Await(text string) {
	b.t.Helper()
	retries := 0
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		shown := b.Text()
		if strings.Contains(shown, text) {
			return
		}
		if strings.Contains(shown, networkChanged) && retries < maxRetries {
			retries++
			_ = chromedp.Do(b.ctx, chromedp.Reload()) // the next text shows whether it has succeeded
			continue
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the page does not show %q after %s: %s", text, timeout, shown)
		}
	}
}

// Text returns the address of the page and the text that it shows; nothing while another page is loaded.
func (b *Browser) Text() string {
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return text
}

// Cookies returns the cookies of an address.
func (b *Browser) Cookies(address string) []*network.Cookie {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	found, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{address}})
	if err != nil {
		b.t.Fatalf("cookies of %s: %v", address, err)
	}
	return found.Cookies
}

// Problems returns what is wrong with the page for people: it must be usable 320 CSS pixels wide, without scripts, in light
// and dark colors, with the contrast of WCAG 2.1 AA, and with texts that a screen reader reads.
func (b *Browser) Problems() (all []string) {
	b.t.Helper()
	for _, colors := range []string{"light", "dark"} {
		b.do("audit", call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 320, Height: 640, DeviceScaleFactor: 1}),
			call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colors}}}))
		ctx, cancel := context.WithTimeout(b.ctx, timeout)
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](audit))
		cancel()
		if err != nil {
			b.t.Fatalf("audit: %v", err)
		}
		for _, problem := range found {
			all = append(all, colors+": "+problem)
		}
	}
	b.do("restore the size", call(emulation.ClearDeviceMetricsOverride, cdp.Empty{}), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}))
	return all
}
