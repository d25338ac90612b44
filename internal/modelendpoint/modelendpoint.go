// Package modelendpoint has the rules of ModelEndpoints: their base URLs, which accounts they are for, and the values that apply
// where their specs have none.
package modelendpoint

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// BaseURL returns the URL below which the server has its API, without a slash at the end.
func BaseURL(e *v1alpha1.ModelEndpoint) string {
	if e.Spec.BaseURL != "" {
		return strings.TrimRight(string(e.Spec.BaseURL), "/")
	}
	if e.Spec.Protocol == v1alpha1.ModelAnthropic {
		return v1alpha1.DefaultAnthropicBaseURL
	}
	return v1alpha1.DefaultOpenAIBaseURL
}

// Check returns an error if the base URL cannot be used. The text begins with the name of the field. Most of it is checked by the
// schema of the CRD too; objects of a cluster without this schema are not trusted.
func Check(e *v1alpha1.ModelEndpoint) error {
	u, err := url.Parse(BaseURL(e))
	if err != nil {
		return errors.New("baseURL: not a URL")
	}
	if u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("baseURL: must have a host name, and no credentials, query or fragment")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("baseURL: the port %s is not between 1 and 65535", port)
		}
	}
	if u.Scheme == "https" || u.Scheme == "http" && (IsLoopback(e) || isService(u.Hostname())) {
		return nil
	}
	return errors.New("baseURL: must be https, or http with localhost or a Service of the cluster")
}

// IsLoopback reports whether the server is on the host, or in the pod, of the process that sends requests.
func IsLoopback(e *v1alpha1.ModelEndpoint) bool {
	u, err := url.Parse(BaseURL(e))
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// isService reports whether a host is the DNS name of a Service.
func isService(host string) bool {
	name := strings.TrimSuffix(host, ".cluster.local")
	return strings.HasSuffix(name, ".svc") && strings.Count(name, ".") == 2
}

// Allows reports whether the agents of an account may use the endpoint.
func Allows(e *v1alpha1.ModelEndpoint, account string) bool {
	return len(e.Spec.AllowedAccounts) == 0 || slices.Contains(e.Spec.AllowedAccounts, account)
}

// MaxOutputTokens returns the maximum number of tokens of an answer.
func MaxOutputTokens(e *v1alpha1.ModelEndpoint) int64 {
	return or(e.Spec.MaxOutputTokens, v1alpha1.DefaultModelMaxOutputTokens)
}

// ContextTokens returns the maximum number of tokens of a request and its answer.
func ContextTokens(e *v1alpha1.ModelEndpoint) int64 {
	return or(e.Spec.ContextTokens, v1alpha1.DefaultModelContextTokens)
}

// MaxConcurrentRequests returns the number of requests that a replica sends at a time.
func MaxConcurrentRequests(e *v1alpha1.ModelEndpoint) int {
	if e.Spec.Limits == nil {
		return int(v1alpha1.DefaultModelMaxConcurrentRequests)
	}
	return int(or(e.Spec.Limits.MaxConcurrentRequests, v1alpha1.DefaultModelMaxConcurrentRequests))
}

// RequestTimeout returns the time limit of a request with its answer.
func RequestTimeout(e *v1alpha1.ModelEndpoint) time.Duration {
	seconds := v1alpha1.DefaultModelRequestTimeoutSeconds
	if e.Spec.Limits != nil {
		seconds = or(e.Spec.Limits.RequestTimeoutSeconds, seconds)
	}
	return time.Duration(seconds) * time.Second
}

// or returns the value that a pointer points to, or other if it is nil.
func or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}
