package main

import (
	"bytes"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGatewayInvalidUsage checks that an error names the flag and the allowed values.
func TestGatewayInvalidUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":      {[]string{"--colour"}, "-colour"},
		"argument":          {[]string{"now"}, `unexpected argument "now"`},
		"no key":            {[]string{"--tls-cert-file=x"}, "--tls-cert-file and --tls-key-file must be set together"},
		"no rate":           {[]string{"--requests-per-second=0"}, "--requests-per-second must be more than 0"},
		"no burst":          {[]string{"--burst=0"}, "--burst 1 or more"},
		"nothing in flight": {[]string{"--max-in-flight=0"}, "--max-in-flight, --max-requests and --max-sql-connections must be 1 or more"},
		"no SQL":            {[]string{"--max-sql-connections=0"}, "--max-sql-connections must be 1 or more"},
		"no connections":    {[]string{"--max-connections=0"}, "--max-connections, --max-unauthenticated and --max-unauthenticated-per-address must be 1 or more"},
		"no clients":        {[]string{"--max-unauthenticated=0"}, "--max-unauthenticated and"},
		"no addresses":      {[]string{"--max-unauthenticated-per-address=0"}, "--max-unauthenticated-per-address must be 1 or more"},
		"negative wait":     {[]string{"--wait-timeout=-1s"}, "--wait-timeout and --max-waiting must be 0 or more"},
		"no drain":          {[]string{"--drain-timeout=0"}, "--drain-timeout more than 0"},
		"host, no network":  {[]string{"--trusted-proxies=10.0.0.1"}, `"10.0.0.1" is not a network such as 10.0.0.0/8`},
		"own namespace":     {[]string{"--watch-namespaces=quoin-system"}, `--watch-namespaces: "quoin-system" is the namespace of Quoin itself`},
		"unknown log level": {[]string{"--log-level=loud"}, `--log-level is "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := serveGateway(t.Context(), c.args, io.Discard, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("stderr does not contain %q:\n%s", c.want, stderr.String())
			}
		})
	}
}

func TestGatewayFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	f, err := parseGatewayFlags([]string{"--trusted-proxies=10.0.0.0/8", "--bind-address=:1", "--sql-bind-address=0", "--watch-namespaces=a"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := f.config
	if !slices.Equal(c.TrustedProxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}) || c.HTTPS.Address != ":1" || !slices.Equal(c.WatchNamespaces, []string{"a"}) || c.SQL.Address != "0" ||
		c.RequestsPerSecond != 100 || c.MaxConnections != 20_000 || c.MaxUnauthenticated != 1000 || c.MaxUnauthenticatedPerAddress != 100 ||
		c.Burst != 200 || c.WaitTimeout != 30*time.Second || c.Namespace != "quoin-system" || c.Service != "quoin-gateway" {
		t.Errorf("%+v", c)
	}
}
