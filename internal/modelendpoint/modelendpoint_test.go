package modelendpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func endpoint(protocol v1alpha1.ModelProtocol, url string) *v1alpha1.ModelEndpoint {
	return &v1alpha1.ModelEndpoint{Spec: v1alpha1.ModelEndpointSpec{Protocol: protocol, BaseURL: v1alpha1.ModelBaseURL(url)}}
}

func TestBaseURL(t *testing.T) {
	for _, c := range []struct {
		protocol  v1alpha1.ModelProtocol
		url, want string
	}{
		{"OpenAI", "", "https://api.openai.com/v1"},
		{"Anthropic", "", "https://api.anthropic.com"},
		{"OpenAI", "https://models.example.com/v1/", "https://models.example.com/v1"},
		{"Anthropic", "https://models.example.com", "https://models.example.com"},
	} {
		if got := BaseURL(endpoint(c.protocol, c.url)); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.protocol, c.url, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for url, want := range map[string]string{
		"":                                         "",
		"https://models.example.com":               "",
		"https://models.example.com:8443/v":        "",
		"https://10.0.0.1/v1":                      "",
		"https://[fd00::1]:8443/v1":                "",
		"http://localhost:8080/v1":                 "",
		"http://127.0.0.1:8080":                    "",
		"http://[::1]:8080":                        "",
		"http://llama.models.svc:8080/v1":          "",
		"http://llama.models.svc.cluster.local/v1": "",
		"http://models.example.com/v1":             "must be https",
		"http://llama.models.svc.example.com":      "must be https",
		"http://svc":                               "must be https",
		"http://models.svc":                        "must be https",
		"http://169.254.169.254/v1":                "must be https",
		"ftp://models.example.com":                 "must be https",
		"https://user:pass@models.example.com":     "no credentials",
		"https://models.example.com/?key=x":        "no credentials, query",
		"https://models.example.com/#x":            "fragment",
		"https://":                                 "must have a host name",
		"https://models.example.com:70000":         "the port 70000",
		"https://models.example.com:port":          "not a URL",
	} {
		err := Check(endpoint("OpenAI", url))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "baseURL: ")) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: the error has the password: %v", url, err)
		}
	}
}

func TestAllows(t *testing.T) {
	all := endpoint("OpenAI", "")
	some := endpoint("OpenAI", "")
	some.Spec.AllowedAccounts = []string{"acme", "globex"}
	for _, c := range []struct {
		e       *v1alpha1.ModelEndpoint
		account string
		want    bool
	}{{all, "acme", true}, {some, "acme", true}, {some, "globex", true}, {some, "acm", false}, {some, "", false}} {
		if got := Allows(c.e, c.account); got != c.want {
			t.Errorf("%v, account %q: %v", c.e.Spec.AllowedAccounts, c.account, got)
		}
	}
}

func TestValuesWithoutASpec(t *testing.T) {
	e := endpoint("OpenAI", "")
	if MaxOutputTokens(e) != 8192 || ContextTokens(e) != 131072 || MaxConcurrentRequests(e) != 16 || RequestTimeout(e) != 5*time.Minute {
		t.Errorf("the values are %d, %d, %d, %s", MaxOutputTokens(e), ContextTokens(e), MaxConcurrentRequests(e), RequestTimeout(e))
	}
	e.Spec.Limits = &v1alpha1.ModelLimits{}
	if MaxConcurrentRequests(e) != 16 || RequestTimeout(e) != 5*time.Minute {
		t.Errorf("with empty limits the values are %d, %s", MaxConcurrentRequests(e), RequestTimeout(e))
	}
	tokens, requests, seconds := int64(1024), int32(2), int32(30)
	e.Spec.MaxOutputTokens, e.Spec.ContextTokens = &tokens, &tokens
	e.Spec.Limits = &v1alpha1.ModelLimits{MaxConcurrentRequests: &requests, RequestTimeoutSeconds: &seconds}
	if MaxOutputTokens(e) != 1024 || ContextTokens(e) != 1024 || MaxConcurrentRequests(e) != 2 || RequestTimeout(e) != 30*time.Second {
		t.Errorf("the values are %d, %d, %d, %s", MaxOutputTokens(e), ContextTokens(e), MaxConcurrentRequests(e), RequestTimeout(e))
	}
}
