package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates is the certificate that the listener shows, kept up to date while Run runs.
// It comes from files (CertificatesFromFiles) or from a Secret that Quoin keeps
// (CertificatesFromSecret). It is a prometheus.Collector of its expiry time.
type Certificates struct {
	source   source
	interval time.Duration
	log      *slog.Logger

	current atomic.Pointer[keyPair]
	// mu is held while the source is read; failure is the error that was logged last.
	mu      sync.Mutex
	failure string
}

// source reads the certificate. It may return one that can be shown together with an error
// that says why there is no better one. Its errors hold no key material.
type source interface {
	load(ctx context.Context) (*keyPair, error)
}

// keyPair is a certificate with its private key.
type keyPair struct {
	tls.Certificate
	// ca, in PEM, is what clients verify the certificate with; nil when not known.
	ca []byte
}

// newCertificates fails when there is no certificate to begin with.
func newCertificates(ctx context.Context, s source, interval time.Duration, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{source: s, interval: interval, log: log}
	if err := c.Refresh(ctx); err != nil && c.current.Load() == nil {
		return nil, err
	}
	return c, nil
}

// GetCertificate is for tls.Config.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &c.current.Load().Certificate, nil
}

// CA is what clients verify the certificate with, in PEM; nil when it came from files. It
// changes about every nine years, and when the Secret is deleted.
func (c *Certificates) CA() []byte { return c.current.Load().ca }

// Refresh reads the certificate now. On an error the one that was shown before stays, and the
// error is logged unless it is the same as the last time.
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
			// Refresh has logged it, and the next tick tries again.
			_ = c.Refresh(ctx)
		}
	}
}

var expiry = prometheus.NewDesc("quoin_certificate_expiry_timestamp_seconds",
	"When the serving certificate expires, in seconds since 1970.", nil, nil)

// Describe implements prometheus.Collector.
func (c *Certificates) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- expiry }

// Collect implements prometheus.Collector.
func (c *Certificates) Collect(metrics chan<- prometheus.Metric) {
	notAfter := c.current.Load().Leaf.NotAfter
	metrics <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(notAfter.Unix()))
}
