package serving

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// authorityReserve is what an authority must have left to issue another certificate.
	authorityReserve = 365 * 24 * time.Hour
	servingLifetime  = 90 * 24 * time.Hour
	// backdate is how far the clocks of clients may be behind.
	backdate = 5 * time.Minute
)

// authority is a private CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// The same in PEM.
	certificatePEM, keyPEM []byte
}

// newAuthority makes a CA of a server, with an ECDSA P-256 key, that is valid for ten years.
func newAuthority(server string, now time.Time) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: server + "-ca"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	certificate, key, err := sign(template, nil)
	if err != nil {
		return nil, err
	}
	return parseAuthority(certificate, key)
}

// parseAuthority reads a CA from PEM. Its errors hold no key material.
func parseAuthority(certificate, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("the certificate is no CA's")
	}
	return &authority{certificate: pair.Leaf, key: signer, certificatePEM: certificate, keyPEM: key}, nil
}

// issue makes a certificate of a server for names, each a DNS name or an IP address, with a key
// of its own, both in PEM.
func (a *authority) issue(server string, names []string, now time.Time) (certificate, key []byte, err error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: server},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(servingLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	return sign(template, a)
}

// sign makes a key and a certificate for it, by parent or, when that is nil, by itself.
func sign(template *x509.Certificate, parent *authority) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	// A positive number of at most 20 octets (RFC 5280, section 4.1.2.2).
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	issuer, signer := template, crypto.Signer(private)
	if parent != nil {
		issuer, signer = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
