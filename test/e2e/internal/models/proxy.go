// Package models serves language models to agents: a proxy of a real one, and one that follows a script.
package models

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Proxy passes requests to a model server on, and records how they end.
type Proxy struct {
	// URL is the address of the proxy; the paths are those of the server.
	URL string

	mu    sync.Mutex
	chats []*chat
	// pieces is the number of pieces of text after which an answer is held until resume is closed; 0 for none.
	pieces int
	resume chan struct{}
}

// chat is a request for an answer.
type chat struct {
	body string
	// ended is true at the end of the request, and whole if the client had not left by then.
	ended, whole bool
}

// StartProxy starts a proxy of the server at a URL, at an address of this machine, until the end of the journey.
func StartProxy(address, server string) *Proxy {
	GinkgoHelper()
	to, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	p := &Proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: p.watch,
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0), // clients that leave
	}
	listening := listen(address, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			forward.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c := p.begin(string(body))
		defer p.end(c, r)
		forward.ServeHTTP(w, r)
	})
	p.URL = listening.URL
	return p
}

// listen starts a server at an address of this machine, until the end of the journey.
func listen(address string, handle http.HandlerFunc) *httptest.Server {
	GinkgoHelper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	Expect(err).NotTo(HaveOccurred())
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}}
	server.Start()
	DeferCleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func (p *Proxy) begin(body string) *chat {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &chat{body: body}
	p.chats = append(p.chats, c)
	return c
}

// end records the end of a request. The context of a request whose client has left has ended.
func (p *Proxy) end(c *chat, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.ended, c.whole = true, r.Context().Err() == nil
}

// Hold holds the answers that begin from now on after some pieces of text, until resume is called or the client leaves.
func (p *Proxy) Hold(pieces int) (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := make(chan struct{})
	p.pieces, p.resume = pieces, until
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(until)
		p.pieces = 0
	})
}

// watch lets the body of a response be held.
func (p *Proxy) watch(response *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pieces > 0 && response.Request.Method == http.MethodPost {
		response.Body = &heldBody{
			ReadCloser: response.Body, lines: bufio.NewReader(response.Body), left: p.pieces, resume: p.resume, gone: response.Request.Context().Done(),
		}
	}
	return nil
}

// InProgress returns the number of requests for an answer that have not ended.
func (p *Proxy) InProgress() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.chats {
		if !c.ended {
			n++
		}
	}
	return n
}

// Asked returns the number of requests with a text, and how many of them the client has ended before the end of the answer.
func (p *Proxy) Asked(text string) (all, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.chats {
		if !strings.Contains(c.body, text) {
			continue
		}
		if all++; c.ended && !c.whole {
			left++
		}
	}
	return all, left
}

// heldBody is a body of events that is read line by line, and not beyond some pieces of text until resume is closed.
type heldBody struct {
	io.ReadCloser
	lines  *bufio.Reader
	rest   []byte
	left   int
	resume <-chan struct{}
	gone   <-chan struct{}
}

// isText matches an event with a piece of text, in the protocol of OpenAI.
var isText = regexp.MustCompile(`^data: .*"content": ?"[^"]`)

// Read implements io.Reader.
func (b *heldBody) Read(to []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		if b.rest = line; isText.Match(line) {
			b.left--
		}
		if b.left < 0 {
			select {
			case <-b.resume:
			case <-b.gone:
				return 0, io.ErrUnexpectedEOF
			}
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
