// Package certificates keeps the serving certificates of a server: from files, or generated and
// stored in a Secret, with a certificate for each host of a tenant.
package certificates

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates holds the serving certificates, and keeps them up to date while Run runs. Its source is
// files (FromFiles) or a Secret that Quoin manages (FromSecret). It is a prometheus.Collector of the
// expiry time.
type Certificates struct {
	source   source
	interval time.Duration
	log      *slog.Logger

	current atomic.Pointer[keyPair]
	// mu is held while the source is read; failure is the last logged error.
	mu      sync.Mutex
	failure string
}

// source loads the certificate. It may return a usable certificate together with the error that
// prevented its renewal. Its errors contain no key material.
type source interface {
	load(ctx context.Context) (*keyPair, error)
}

// keyPair is a certificate with its private key.
type keyPair struct {
	tls.Certificate
	// ca is the CA certificate for clients, in PEM; nil if unknown.
	ca []byte
	// authority signs the certificates of hosts; nil if unknown.
	authority *authority
	// hosts are the certificates of hosts; nil if there is one certificate for all.
	hosts *hostCertificates
}

// missingInterval is how often a Secret is read that does not exist yet.
const missingInterval = time.Second

// newCertificates returns an error if the source has no certificate. It waits for a Secret that
// another process creates.
func newCertificates(ctx context.Context, s source, interval time.Duration, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{source: s, interval: interval, log: log}
	for {
		err := c.Refresh(ctx)
		if err == nil || c.current.Load() != nil {
			return c, nil
		}
		if !errors.Is(err, errMissing) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(missingInterval):
		}
	}
}

// GetCertificate implements tls.Config.GetCertificate. It returns the certificate of the host that
// the client names, or that of the server.
func (c *Certificates) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	current := c.current.Load()
	if hello != nil && current.hosts != nil {
		if certificate, err := current.hosts.certificate(hello.ServerName); certificate != nil || err != nil {
			return certificate, err
		}
	}
	return &current.Certificate, nil
}

// CA returns the CA certificate for clients, in PEM; nil if the certificate is from files. It
// changes about every nine years, and when the Secret is deleted.
func (c *Certificates) CA() []byte { return c.current.Load().ca }

// Trusted returns the certificates by which a client can verify this server, in PEM: the CA, or the
// certificates from the files, for clients that trust them like a CA.
func (c *Certificates) Trusted() []byte {
	current := c.current.Load()
	if current.ca != nil {
		return current.ca
	}
	var all []byte
	for _, der := range current.Certificate.Certificate {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return all
}

// Refresh loads the certificate. On an error, the previous certificate remains in use, and the
// error is logged unless it equals the last one.
func (c *Certificates) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, err := c.source.load(ctx)
	if pair != nil {
		before := c.current.Swap(pair)
		if before == nil || !before.Leaf.Equal(pair.Leaf) {
			c.log.Info("Serving certificate changed", "notAfter", pair.Leaf.NotAfter, "serial", fmt.Sprintf("%x", pair.Leaf.SerialNumber))
		}
	}
	if err == nil {
		c.failure = ""
		return nil
	}
	if text := err.Error(); text != c.failure {
		c.failure = text
		c.log.Error("Cannot renew the serving certificate", "error", err)
	}
	return err
}

// Run keeps the certificate up to date until ctx ends. It returns nil.
func (c *Certificates) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			// Refresh has logged the error; the next tick retries.
			_ = c.Refresh(ctx)
		}
	}
}

var expiry = prometheus.NewDesc("quoin_certificate_expiry_timestamp_seconds",
	"Expiry of the serving certificate, in seconds since the Unix epoch.", nil, nil)

// Describe implements prometheus.Collector.
func (c *Certificates) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- expiry }

// Collect implements prometheus.Collector.
func (c *Certificates) Collect(metrics chan<- prometheus.Metric) {
	notAfter := c.current.Load().Leaf.NotAfter
	metrics <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(notAfter.Unix()))
}
