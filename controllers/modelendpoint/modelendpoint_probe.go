package modelendpoint

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/modelendpoint"
	"github.com/quoin-dev/quoin/internal/neterror"
)

const (
	// probeTimeout is the time limit of a probe.
	probeTimeout = 10 * time.Second
	// maxList is the maximum size of a list of models in bytes. A longer one is not read.
	maxList = 1 << 20
	// anthropicVersion is the version of the protocol, which each request names.
	anthropicVersion = "2023-06-01"
)

// result is what a probe has found, as a condition has it.
type result struct {
	status          metav1.ConditionStatus
	reason, message string
}

// probe requests the list of models, which costs no tokens. The result has nothing of the response but its status, and nothing of
// the key.
func (r *endpointReconciler) probe(ctx context.Context, e *v1alpha1.ModelEndpoint, s *secrets) result {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := listRequest(ctx, e, s.key)
	if err != nil {
		return unreachable("the URL cannot be used")
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: r.Dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots},
	}
	// A redirect is not followed: the key is for this server only.
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := c.Do(request)
	if err != nil {
		return unreachable(neterror.Classify(err).Message)
	}
	defer func() { _ = response.Body.Close() }()
	body := io.LimitReader(response.Body, maxList+1)
	return interpret(response.StatusCode, body, e.Spec.Model)
}

func listRequest(ctx context.Context, e *v1alpha1.ModelEndpoint, key string) (*http.Request, error) {
	base := modelendpoint.BaseURL(e)
	if e.Spec.Protocol != v1alpha1.ModelAnthropic {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", http.NoBody)
		if err == nil && key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return r, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models?limit=1000", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	return r, nil
}

func unreachable(problem string) result {
	return result{metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "The server does not answer: " + problem}
}

// interpret returns what a response to the request for the list of models means.
func interpret(status int, body io.Reader, model string) result {
	answered := fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return result{metav1.ConditionFalse, v1alpha1.ReasonAPIKeyRejected, "The server rejects the API key: it answers " + answered}
	case status >= 300 && status < 400:
		return unreachable("it redirects to another address; spec.baseURL must name the server itself")
	case status >= 500:
		return unreachable("it answers " + answered)
	case status == http.StatusTooManyRequests:
		return result{metav1.ConditionTrue, v1alpha1.ReasonReachable, "The server answers, and limits requests at present"}
	case status != http.StatusOK:
		return result{metav1.ConditionTrue, v1alpha1.ReasonReachable, "The server answers, and has no list of models: " + answered}
	}
	names, complete := models(body)
	if complete && !slices.ContainsFunc(names, func(name string) bool { return isModel(name, model) }) {
		return result{metav1.ConditionTrue, v1alpha1.ReasonModelNotListed, fmt.Sprintf("The server answers, and its list of models does not have %s", model)}
	}
	return result{metav1.ConditionTrue, v1alpha1.ReasonReachable, "The server answers"}
}

// models returns the names in a list of models, and whether the list is complete. Both protocols have the same list.
func models(body io.Reader) (names []string, complete bool) {
	text, err := io.ReadAll(body)
	if err != nil || len(text) > maxList {
		return nil, false
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		HasMore bool `json:"has_more"`
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Data == nil {
		return nil, false
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, !list.HasMore
}

// isModel reports whether a listed name is that of a model: the same, or with a date or tag, which requests may omit.
func isModel(listed, model string) bool {
	suffix, found := strings.CutPrefix(strings.TrimPrefix(listed, "models/"), strings.TrimPrefix(model, "models/"))
	return found && (suffix == "" || suffix[0] == '-' || suffix[0] == ':' || suffix[0] == '@')
}
