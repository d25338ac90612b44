package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"
)

// The arguments with which this program runs as a model or as a bare proxy.
const (
	modelCommand = "serve-model"
	proxyCommand = "serve-proxy"
)

// serveAs serves until the process is stopped, if the first argument is one of those of this program. It prints its address.
func serveAs(command string, args []string) bool {
	switch {
	case command == modelCommand && len(args) == 2:
		rate, errRate := strconv.Atoi(args[0])
		lasts, errLasts := time.ParseDuration(args[1])
		if errRate != nil || errLasts != nil {
			return false
		}
		listen(&script{time.Second / time.Duration(rate), lasts}, nil)
	case command == proxyCommand && len(args) == 1:
		// The certificate of net/http/httptest, so that both targets encrypt.
		certified := httptest.NewUnstartedServer(nil)
		certified.StartTLS()
		certificates := certified.TLS.Certificates
		certified.Close()
		listen(&bareProxy{args[0], http.DefaultClient}, &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	default:
		return false
	}
	return true
}

func listen(h http.Handler, config *tls.Config) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	if config != nil {
		l = tls.NewListener(l, config)
	}
	fmt.Fprintln(os.Stderr, (&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}).Serve(l))
}

// script is a model that answers each request with pieces of text at a rate. A piece is the time at which it is sent, in nanoseconds
// since 1970, and a blank.
type script struct{ every, lasts time.Duration }

// ndjsonPath is where the script sends newline-delimited JSON; everywhere else it is a server of OpenAI's protocol.
const ndjsonPath = "/ndjson"

// What is before and after each piece of text, and after the last one.
const (
	ndjsonStart = `{"content":"`
	ndjsonEnd   = `"}` + "\n"

	eventStart = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{"role":"assistant","content":"`
	eventEnd   = `"},"finish_reason":null}]}` + "\n\n"
	eventsEnd  = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\ndata: [DONE]\n\n"
)

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what is asked makes no difference
	before, after, end := ndjsonStart, ndjsonEnd, ""
	if r.URL.Path != ndjsonPath {
		w.Header().Set("Content-Type", "text/event-stream")
		before, after, end = eventStart, eventEnd, eventsEnd
	}
	control := http.NewResponseController(w)
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	var line []byte
	for until := time.Now().Add(s.lasts); time.Now().Before(until); {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			// Not the time of the tick: until it is handled, it waits for a processor of the bench.
			line = strconv.AppendInt(append(line[:0], before...), time.Now().UnixNano(), 10)
			line = append(append(line, ' '), after...)
			if _, err := w.Write(line); err != nil || control.Flush() != nil {
				return
			}
		}
	}
	_, _ = io.WriteString(w, end)
}

// bareProxy is the least that a proxy of newline-delimited JSON does: it reads lines, checks that they are JSON and flushes each.
type bareProxy struct {
	backend string
	client  *http.Client
}

func (p *bareProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+p.backend+ndjsonPath, r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	response, err := p.client.Do(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if !json.Valid(lines.Bytes()) {
			return
		}
		if _, err := w.Write(append(lines.Bytes(), '\n')); err != nil || control.Flush() != nil {
			return
		}
	}
}
