package main

import (
	"bytes"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestAPIServerInvalidUsage checks that an error names the flag and the allowed values.
func TestAPIServerInvalidUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":      {[]string{"--colour"}, "-colour"},
		"argument":          {[]string{"now"}, `unexpected argument "now"`},
		"no key":            {[]string{"--tls-cert-file=x"}, "--tls-cert-file and --tls-key-file must be set together"},
		"certificate name":  {[]string{"--certificate-names=localhost,a b"}, `"a b" is not a DNS name or address`},
		"no certificate":    {[]string{"--tls-key-file=x"}, "--tls-cert-file and --tls-key-file must be set together"},
		"no rate":           {[]string{"--requests-per-second=0"}, "--requests-per-second must be more than 0"},
		"no burst":          {[]string{"--burst=0"}, "--burst 1 or more"},
		"GitHub, no key":    {[]string{"--github-app-id=1", "--github-app-slug=x"}, "must be given together"},
		"GitHub, no id":     {[]string{"--github-app-slug=x", "--github-app-key-file=x"}, "must be given together"},
		"GitHub over http":  {[]string{"--github-app-id=1", "--github-app-slug=x", "--github-app-key-file=x", "--github-base-url=http://x"}, "--github-base-url must be an https:// URL"},
		"GitHub, CA only":   {[]string{"--github-ca-file=x"}, "--github-ca-file requires --github-app-id"},
		"GitHub, negative":  {[]string{"--github-app-id=-1"}, "--github-app-id must be positive"},
		"no region":         {[]string{"--region="}, "--region must not be empty"},
		"host, no network":  {[]string{"--trusted-proxies=10.0.0.1"}, `"10.0.0.1" is not a network such as 10.0.0.0/8`},
		"unknown log level": {[]string{"--log-level=loud"}, `--log-level is "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := serveAPI(t.Context(), c.args, io.Discard, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("stderr does not contain %q:\n%s", c.want, stderr.String())
			}
		})
	}
}

func TestAPIServerFlags(t *testing.T) {
	f, err := parseAPIServerFlags([]string{"--trusted-proxies= 10.0.0.0/8, fd00::/8,", "--region=eu", "--bind-address=:1", "--aggregation"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	if !slices.Equal(f.config.TrustedProxies, want) {
		t.Errorf("trusted proxies %v, want %v", f.config.TrustedProxies, want)
	}
	if f.config.Region.Name != "eu" || f.config.Region.Title != "eu" || f.config.HTTPS.Address != ":1" || !f.config.Aggregation {
		t.Errorf("%+v", f.config)
	}
}
