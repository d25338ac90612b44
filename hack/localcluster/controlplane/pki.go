package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLifetime exceeds the life of any local cluster: up creates new
// certificates.
const certificateLifetime = 365 * 24 * time.Hour

// authority is a CA of one cluster.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	folder      string
}

// certificateRequest describes a leaf certificate.
type certificateRequest struct {
	file          string   // file name without its extension
	user          string   // common name: the Kubernetes user name
	groups        []string // organizations: the Kubernetes groups
	hosts         []string // host names and addresses; empty for a client certificate
	isServingOnly bool     // without client authentication
}

// newAuthority creates a CA and writes <file>.crt and <file>.key.
func newAuthority(folder, file string) (*authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	template := certificateTemplate("localcluster-"+file, nil)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, err := newKey(filepath.Join(folder, file+".key"))
	if err != nil {
		return nil, err
	}
	certificate, err := signCertificate(filepath.Join(folder, file+".crt"), template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, folder: folder}, nil
}

// issue creates a key and a certificate and writes <file>.crt and <file>.key.
func (a *authority) issue(request certificateRequest) error {
	template := certificateTemplate(request.user, request.groups)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if !request.isServingOnly {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if len(request.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range request.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	key, err := newKey(filepath.Join(a.folder, request.file+".key"))
	if err != nil {
		return err
	}
	_, err = signCertificate(filepath.Join(a.folder, request.file+".crt"), template, a.certificate, key.Public(), a.key)
	return err
}

func certificateTemplate(user string, groups []string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: user, Organization: groups},
		NotBefore: now.Add(-time.Minute), // tolerate clock adjustments
		NotAfter:  now.Add(certificateLifetime),
	}
}

func signCertificate(path string, template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", filepath.Base(path), err)
	}
	if err := writePEM(path, "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newKey creates an ECDSA key, which is faster than RSA, and writes it readable
// only by its owner.
func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "PRIVATE KEY", der, 0o600)
}

// newServiceAccountKey creates the key pair that signs service account tokens.
func newServiceAccountKey(folder string) error {
	key, err := newKey(filepath.Join(folder, "service-account.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(folder, "service-account.pub"), "PUBLIC KEY", der, 0o644)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
