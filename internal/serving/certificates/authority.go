package certificates

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
	// authorityReserve is the remaining lifetime below which an authority is replaced.
	authorityReserve = 365 * 24 * time.Hour
	servingLifetime  = 90 * 24 * time.Hour
	// backdate is the tolerated clock skew of clients.
	backdate = 5 * time.Minute
)

// authority is a private CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// PEM encodings of the above.
	certificatePEM, keyPEM []byte
}

// newAuthority returns a new CA for a server, with an ECDSA P-256 key, valid for ten years.
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

// parseAuthority parses a CA in PEM. Its errors contain no key material.
func parseAuthority(certificate, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("the certificate is not a CA certificate")
	}
	return &authority{certificate: pair.Leaf, key: signer, certificatePEM: certificate, keyPEM: key}, nil
}

// issue returns a new certificate of a server for names, each a DNS name or an IP address, and its
// new key, both in PEM.
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

// sign returns a new key and its certificate, signed by parent or, if that is nil, self-signed.
func sign(template *x509.Certificate, parent *authority) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	// A positive number of at most 20 octets (RFC 5280, section 4.1.2.2).
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("generate serial number: %w", err)
	}
	issuer, signer := template, crypto.Signer(private)
	if parent != nil {
		issuer, signer = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
