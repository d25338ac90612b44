package remote_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/internal/masking"
)

// logged is what the process logs.
var logged lines

type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// TestMain logs as the commands of quoin do.
func TestMain(m *testing.M) {
	log.SetLogger(funcr.New(func(prefix, args string) { logged.add(prefix + " " + args) }, funcr.Options{Verbosity: 10}))
	stdlog.SetFlags(0)
	stdlog.SetOutput(masking.LibraryLog(logged.add))
	os.Exit(m.Run())
}

// forms are forms of the credentials that the host has received.
func forms() []string {
	both := user + ":" + password
	return []string{password, base64.StdEncoding.EncodeToString([]byte(both)), url.QueryEscape(both), "hunter2"}
}

// checkSecrets checks that no form of the credentials is in a response, in an event or in the log.
func (w *world) checkSecrets(answers ...*answer) {
	w.Helper()
	all := map[string]string{"the log": logged.text(), "an event": w.recorded()}
	for _, a := range answers {
		all["the response to "+a.what] = a.text
	}
	for where, text := range all {
		for _, form := range forms() {
			if strings.Contains(text, form) {
				w.Errorf("%s has %q: %.1000s", where, form, text)
			}
		}
	}
}

// echo is the text of a hostile host: all forms of the credentials, with control characters.
func echo() string {
	return "\x1b[31mrejected\r\n" + strings.Join(forms()[:3], " ") + " https://" + user + ":" + password + "@example.com Authorization: Basic " + forms()[1]
}

// hijacked answers a request with bytes that are no HTTP response of a handler.
func hijacked(t testing.TB, w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
}

// TestCredentialsInAnswers: the host sends the credentials that it has received in all places in which it
// can send a text. They are not told to users, who may not read the Secret, and not logged.
func TestCredentialsInAnswers(t *testing.T) {
	for name, respond := range map[string]func(w http.ResponseWriter){
		"the body of a 401": func(w http.ResponseWriter) { http.Error(w, echo(), http.StatusUnauthorized) },
		"the body of a 403": func(w http.ResponseWriter) { http.Error(w, echo(), http.StatusForbidden) },
		"the body of a 422": func(w http.ResponseWriter) { http.Error(w, echo(), http.StatusUnprocessableEntity) },
		"the body of a 500": func(w http.ResponseWriter) { http.Error(w, echo(), http.StatusInternalServerError) },
		"a page":            func(w http.ResponseWriter) { fmt.Fprint(w, "<html>"+echo()) },
		"an error":          func(w http.ResponseWriter) { fmt.Fprint(w, pkt("ERR "+echo())) },
		"a packet":          func(w http.ResponseWriter) { fmt.Fprint(w, pkt(echo())) },
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://x/"+url.PathEscape(echo()))
			w.WriteHeader(http.StatusFound)
		},
		"a status line":       func(w http.ResponseWriter) { hijacked(t, w, "HTTP/1.1 500 "+password+"\r\n\r\n") },
		"no HTTP":             func(w http.ResponseWriter) { hijacked(t, w, "hello "+echo()+"\r\n\r\n") },
		"a header":            func(w http.ResponseWriter) { hijacked(t, w, "HTTP/1.1 200 OK\r\n"+password+"\r\n\r\n") },
		"a length":            func(w http.ResponseWriter) { hijacked(t, w, "HTTP/1.1 200 OK\r\nContent-Length: "+password+"\r\n\r\n") },
		"an encoding":         func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip"); fmt.Fprint(w, echo()) },
		"an unasked response": func(w http.ResponseWriter) { unasked(t, w) },
		"a chunk of a message": func(w http.ResponseWriter) {
			hijacked(t, w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+password)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
			w.uses("acme", h.url, basic())
			w.enter("acme")
			var answers []*answer
			for _, part := range []string{"info/refs?service=git-upload-pack", "git-upload-pack", "info/refs?service=git-receive-pack", "git-receive-pack"} {
				h.set(func() {
					h.intercept = func(rw http.ResponseWriter, r *http.Request) bool {
						if !strings.HasSuffix(r.URL.RequestURI(), "/"+part) {
							return false
						}
						_, _ = io.Copy(io.Discard, r.Body)
						respond(rw)
						return true
					}
				})
				w.later()
				answers = append(answers, w.write("acme", part+"\n"), w.call("acme", "GET", "/data-model/files", nil))
				h.honest()
			}
			w.checkSecrets(answers...)
			w.later()
			w.write("acme", "honest\n").is(200)
		})
	}
}

// unasked answers with a response that a client cannot use, and with a second one.
func unasked(t testing.TB, w http.ResponseWriter) {
	body := pkt("version 2\n") + pkt("ls-refs\n") + pkt("fetch\n") + "0000"
	hijacked(t, w, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(body), body, "HTTP/1.1 200 OK\r\nX: "+echo()+"\r\n\r\n"))
}

// TestCredentialsInReports: the same for the report of a push, whose words are told.
func TestCredentialsInReports(t *testing.T) {
	for name, report := range map[string]func(w io.Writer, branch string){
		"a reason": func(w io.Writer, branch string) {
			band(w, 1, []byte("000eunpack ok\n"+pkt("ng refs/heads/"+branch+" "+echo()+"\n")+"0000"))
		},
		"unpacking": func(w io.Writer, _ string) { band(w, 1, []byte(pkt("unpack "+echo()+"\n")+"0000")) },
		"messages": func(w io.Writer, branch string) {
			for _, b := range []byte(echo()) { // one by one
				band(w, 2, []byte{b})
			}
			band(w, 1, []byte("000eunpack ok\n"+pkt("ng refs/heads/"+branch+" declined\n")+"0000"))
		},
		"an error": func(w io.Writer, _ string) { band(w, 3, []byte(echo())) },
		"control characters": func(w io.Writer, branch string) {
			band(w, 1, []byte("000eunpack ok\n"+pkt("ng refs/heads/"+branch+" \x00"+password+"\x1b[0m\x07\n")+"0000"))
		},
		"messages and a lost end": func(w io.Writer, _ string) { band(w, 2, []byte(echo())) },
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, gitmirror.Timeouts{}), newHost(t)
			w.uses("acme", h.url, basic())
			dev := w.enter("acme")
			h.set(func() {
				h.intercept = func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") {
						return false
					}
					_, _ = io.Copy(io.Discard, r.Body)
					report(rw, dev)
					fmt.Fprint(rw, "0000")
					return true
				}
			})
			a := w.write("acme", "b\n")
			if a.status != 409 && a.status != 502 {
				t.Errorf("status %d: %s", a.status, a.text)
			}
			w.checkSecrets(a)
			if strings.Contains(a.text, `\u001b`) || bytes.ContainsAny([]byte(a.text), "\x1b\x07\r") {
				t.Errorf("the response has control characters: %q", a.text)
			}
			if len(a.text) > 2000 {
				t.Errorf("the response has %d bytes", len(a.text))
			}
		})
	}
}
