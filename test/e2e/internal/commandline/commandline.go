// Package commandline signs in as the upstream command-line client does: its requests have the fields of cli-calls.json,
// and its responses must have those that it reads.
package commandline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The commands whose calls are known.
const (
	Start   = "login (no --api-key): start device authorization"
	Poll    = "login (no --api-key): poll for the token"
	Check   = "login: credential check (device flow and --api-key alike)"
	WhoAmI  = "whoami"
	Refresh = "(any command) automatic token refresh after a 401"
)

//go:embed cli-calls.json
var known []byte

// call is a call of the client. Body has a form's fields, with a question mark if they are optional, and Reads the fields of
// a response.
type call struct {
	Command, Method, Path string
	Body, Reads           []string
}

// Client is a client of a server. Token is its access token.
type Client struct {
	Token string

	base  string
	calls []call
	http  *http.Client
}

// New returns a client of a host, a server with an address and a certificate of the CA in a file.
func New(host, address, caFile string) *Client {
	GinkgoHelper()
	c := &Client{base: "https://" + host}
	Expect(json.Unmarshal(known, &c.calls)).To(Succeed())
	ca, err := os.ReadFile(caFile)
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(ca)).To(BeTrue())
	c.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
	DeferCleanup(c.http.CloseIdleConnections)
	return c
}

// Do sends the call of a command with the fields of a form, and checks the response: the fields of a response with another
// status than 200 are those with the remark (non-2xx).
func (c *Client) Do(ctx context.Context, command string, status int, form map[string]string) map[string]any {
	GinkgoHelper()
	i := slices.IndexFunc(c.calls, func(one call) bool { return one.Command == command })
	Expect(i).NotTo(Equal(-1), "the client has no command %q", command)
	one := c.calls[i]
	r, err := http.NewRequestWithContext(ctx, one.Method, c.base+one.Path, one.form(form))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("User-Agent", "cube-cli/1.7.50")
	if len(one.Body) > 0 {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.http.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(status), "%s: %s", command, text)
	var fields map[string]any
	Expect(json.Unmarshal(text, &fields)).To(Succeed(), "%s: %s", command, text)
	if len(one.Body) > 0 || status == http.StatusOK {
		one.check(fields, status == http.StatusOK)
	}
	return fields
}

// form returns the body of a request. All fields that are not optional must be given, and no other ones.
func (one call) form(fields map[string]string) io.Reader {
	GinkgoHelper()
	values, names := url.Values{}, []string{}
	for _, described := range one.Body {
		described = strings.TrimSuffix(described, " (form)")
		described, constant, isConstant := strings.Cut(described, " = ")
		name, kind, _ := strings.Cut(described, ":")
		names = append(names, name)
		value, given := fields[name]
		if isConstant {
			value, given = constant, true
		}
		Expect(given || strings.HasSuffix(kind, "?")).To(BeTrue(), "%s: the client sends %s", one.Command, name)
		if given {
			values.Set(name, value)
		}
	}
	for name := range fields {
		Expect(names).To(ContainElement(name), "%s: the client does not send %s", one.Command, name)
	}
	return strings.NewReader(values.Encode())
}

// check checks that a response has what the client reads.
func (one call) check(fields map[string]any, succeeded bool) {
	GinkgoHelper()
	for _, described := range one.Reads {
		described, ofErrors := strings.CutSuffix(described, " (non-2xx)")
		if ofErrors == succeeded {
			continue
		}
		spellings, kind, _ := strings.Cut(described, ":")
		present := 0
		for name := range strings.SplitSeq(spellings, "|") {
			value := fields[name]
			if value == nil {
				continue
			}
			present++
			Expect(strings.TrimSuffix(kind, "?")).To(ContainSubstring(kindOf(value)), "%s: %s is %v", one.Command, name, value)
		}
		Expect(present).To(BeNumerically("<=", 1), "%s: the client reads only one of %s", one.Command, spellings)
		Expect(present == 1 || strings.HasSuffix(kind, "?")).To(BeTrue(), "%s: the response has no %s: %v", one.Command, spellings, fields)
	}
}

// kindOf returns the name of a value's type in cli-calls.json.
func kindOf(value any) string {
	switch value := value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		if value >= 0 && value == float64(int64(value)) {
			return "int"
		}
	}
	return "another type"
}
