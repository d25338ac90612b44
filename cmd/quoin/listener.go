package main

import (
	"cmp"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/serving"
)

// listenerFlags are those of what answers requests: `quoin apiserver` and `quoin gateway`.
type listenerFlags struct {
	kubeconfig             string
	https, probes, metrics string // addresses
	namespace, service     string
	certFile, keyFile      string
	trustedProxies         string
	networks               []netip.Prefix // what trustedProxies says, once it was read
	requestsPerSecond      float64
	burst                  int
	shutdownDelay          time.Duration
	log                    logFlags
}

// listenerWords are what the flags say of the subcommand that has them.
type listenerWords struct {
	service string // the name of its Service
	serves  string // what is at its address
	bounds  string // whom its rates bound, and in what
}

func (l *listenerFlags) register(fs *flag.FlagSet, words listenerWords) {
	registerKubeconfig(fs, &l.kubeconfig)
	fs.StringVar(&l.https, "bind-address", ":8443", "`address` of "+words.serves+", over HTTPS")
	fs.StringVar(&l.metrics, "metrics-bind-address", "127.0.0.1:8080", "`address` of the metrics, over plain HTTP and for everybody who reaches it; 0 for none")
	fs.StringVar(&l.probes, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	fs.StringVar(&l.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "quoin-system"), "quoin's own `namespace`, where the certificate is kept")
	fs.StringVar(&l.service, "service", words.service, "`name` of the Service in that namespace, for which the certificate is made too")
	fs.StringVar(&l.certFile, "tls-cert-file", "", "certificate `file`, read again when it changes; one is made and renewed when empty")
	fs.StringVar(&l.keyFile, "tls-key-file", "", "`file` with the certificate's key")
	fs.StringVar(&l.trustedProxies, "trusted-proxies", "", "`networks` such as 10.0.0.0/8,fd00::/8 whose X-Forwarded-For is believed")
	fs.Float64Var(&l.requestsPerSecond, "requests-per-second", 100, "`requests` a second that "+words.bounds+" on average")
	fs.IntVar(&l.burst, "burst", 200, "`requests` that "+words.bounds+" at once")
	fs.DurationVar(&l.shutdownDelay, "shutdown-delay", 5*time.Second, "how `long` requests are still taken after /readyz has turned")
	l.log.register(fs)
}

// problem says what is wrong with the flags, and reads the networks; own is what is wrong with
// the flags that only this subcommand has.
func (l *listenerFlags) problem(own string) string {
	switch {
	case (l.certFile == "") != (l.keyFile == ""):
		return "--tls-cert-file and --tls-key-file go together"
	case l.requestsPerSecond <= 0 || l.burst < 1:
		return "--requests-per-second must be more than 0, --burst 1 or more"
	case own != "":
		return own
	}
	var err error
	if l.networks, err = parseNetworks(l.trustedProxies); err != nil {
		return "--trusted-proxies: " + err.Error()
	}
	return ""
}

// endpoints say where to listen.
func (l *listenerFlags) endpoints() (https, probes, metrics serving.Endpoint) {
	return serving.Endpoint{Address: l.https}, serving.Endpoint{Address: l.probes}, serving.Endpoint{Address: l.metrics}
}

// parseNetworks reads networks with commas between them.
func parseNetworks(list string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for network := range strings.SplitSeq(list, ",") {
		if network = strings.TrimSpace(network); network == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", network)
		}
		networks = append(networks, prefix)
	}
	return networks, nil
}
