package plugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// restTimeout limits a request to the REST API.
	restTimeout = 2 * time.Minute
	// maxAnswer is the number of bytes that a response may have.
	maxAnswer = 256 << 20
	// aggregatedPath is the path of the accounts of the aggregated API.
	aggregatedPath = "/apis/api.platform.quoin.dev/v1/accounts/"
	// keyVariable is the environment variable with the API key for --url.
	keyVariable = "QUOIN_API_KEY"
)

// apiFlags select the way to the REST API.
type apiFlags struct {
	account, url, caFile string
}

// register adds the flags to a command.
func (f *apiFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.account, "account", "", "Name of the account; that of the namespace when empty.")
	c.Flags().StringVar(&f.url, "url", "", "Address of the account's REST API, with an API key in $"+keyVariable+"; the aggregated API when empty.")
	c.Flags().StringVar(&f.caFile, "ca-file", os.Getenv("QUOIN_CA_FILE"), "PEM file of the certificate authority of --url.")
}

// request is a request to an API.
type request struct {
	method, path string
	body         []byte
	mediaType    string
}

// answer is a response.
type answer struct {
	status    int
	mediaType string
	body      []byte
}

// kubernetes sends a request to the Kubernetes API server with the kubeconfig's credentials. A response
// that is no success is an error, and is returned too.
func (s *session) kubernetes(ctx context.Context, r request) (*answer, error) {
	if _, err := s.connect(); err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(s.config)
	if err != nil {
		return nil, err
	}
	return send(ctx, client, strings.TrimSuffix(base.String(), "/"), r, "")
}

// api sends a request for a documented path to the REST API of the account.
func (s *session) api(ctx context.Context, f *apiFlags, r request) (*answer, error) {
	if f.url != "" {
		return f.direct(ctx, r)
	}
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	namespace, err := s.namespace()
	if err != nil {
		return nil, err
	}
	account := f.account
	if account == "" {
		if account, err = s.account(ctx, c, namespace); err != nil {
			return nil, err
		}
	}
	r.path = aggregatedPath + url.PathEscape(account) + "/proxy" + r.path
	a, err := s.kubernetes(ctx, r)
	if err != nil && a != nil {
		switch {
		case a.status == http.StatusNotFound && !strings.Contains(a.mediaType, "json"):
			return nil, errors.New("the aggregated API is not enabled (APIService " + apiServiceName + "): set apiserver.aggregation.enabled of the chart, or use --url and $" + keyVariable)
		case a.status == http.StatusServiceUnavailable && !strings.Contains(a.mediaType, "json"):
			return nil, errors.New("the aggregated API is not available: kubectl get apiservice " + apiServiceName)
		}
	}
	return a, err
}

// direct sends a request to the account's own host.
func (f *apiFlags) direct(ctx context.Context, r request) (*answer, error) {
	key := os.Getenv(keyVariable)
	if key == "" {
		return nil, errors.New("--url needs an API key in $" + keyVariable)
	}
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("--url must be an https:// address such as https://demo.example.com")
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.caFile != "" {
		data, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, err
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--ca-file: %s has no certificate", f.caFile)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment}}
	return send(ctx, client, strings.TrimSuffix(f.url, "/"), r, "Bearer "+key)
}

// send sends a request and reads the whole response.
func send(ctx context.Context, client *http.Client, base string, r request, authorization string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.mediaType, "application/json"))
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readAll(response.Body, maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	a := &answer{response.StatusCode, response.Header.Get("Content-Type"), body}
	if a.status >= http.StatusBadRequest {
		return a, a.problem(req)
	}
	return a, nil
}

// readAll reads a response to its end. One that is larger than the limit is an error: its beginning could be taken for the
// whole, such as an export of the audit log.
func readAll(from io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(body)) > limit {
		return nil, fmt.Errorf("it is larger than %d MiB: request less, such as a part of the audit log with --start and --end", limit>>20)
	}
	return body, err
}

// problem returns the error in a response: a Status of Kubernetes, or a problem of the REST API.
func (a *answer) problem(r *http.Request) error {
	var fields struct {
		metav1.Status
		Error string `json:"error"`
	}
	message := ""
	if json.Unmarshal(a.body, &fields) == nil {
		message = cmp.Or(fields.Error, fields.Message)
	}
	if fields.Error == "" && fields.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: fields.Status}
	}
	return fmt.Errorf("%s %s: %d %s", r.Method, r.URL.Path, a.status, cmp.Or(message, http.StatusText(a.status)))
}
