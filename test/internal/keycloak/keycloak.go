// Package keycloak runs Keycloak, a real OpenID Connect provider, on this machine. It is downloaded with Maven.
package keycloak

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// startTimeout is the timeout of starting the server. It takes ten seconds of CPU time, and minutes on a busy machine.
const startTimeout = 8 * time.Minute

// Server is a server with realms. It uses no files outside of the test.
type Server struct {
	// Address is its address, which clients reach over HTTPS.
	Address string
	// CA is the certificate of the server, in PEM, and CAFolder a folder with only it. SSL_CERT_DIR makes a program trust it.
	CA       []byte
	CAFolder string

	ip      string
	folder  string
	log     string
	command *exec.Cmd
	exited  chan struct{}
}

// Prepare installs the server, and skips the test if it cannot run on this machine. With CI set the test fails instead.
func Prepare(t testing.TB) {
	t.Helper()
	for _, program := range []string{"java", "mvn", "tar"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("with CI set the tests with Keycloak must run: %s is not installed", program)
		}
		t.Skipf("SKIPPED LOUDLY: Keycloak needs %s (Debian: apt-get install openjdk-17-jre-headless maven)", program)
	}
	if _, err := install(); err != nil {
		t.Fatalf("install Keycloak: %v", err)
	}
}

// Start starts a server with realms on loopback, which is killed after the test. Await waits until it serves.
func Start(t testing.TB, realms ...Realm) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1", realms...)
}

// StartAt is like Start, with another IP address of this machine.
func StartAt(t testing.TB, ip string, realms ...Realm) *Server {
	t.Helper()
	Prepare(t)
	s := &Server{ip: ip, folder: t.TempDir(), exited: make(chan struct{})}
	s.log = filepath.Join(s.folder, "log")
	if err := s.start(realms); err != nil {
		t.Fatalf("start Keycloak: %v", err)
	}
	t.Cleanup(func() {
		_ = s.command.Process.Kill() // it may have exited
		<-s.exited
	})
	return s
}

// Issuer returns the URL of a realm, its issuer.
func (s *Server) Issuer(realm string) string { return "https://" + s.Address + "/realms/" + realm }

// Roots returns the certificate of the server as a pool.
func (s *Server) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	return roots
}

// Client returns a client that trusts the server.
func (s *Server) Client() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Roots(), MinVersion: tls.VersionTLS12}}}
}

// Await waits until the server serves a realm.
func (s *Server) Await(ctx context.Context, realm string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := s.Client()
	defer client.CloseIdleConnections()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Issuer(realm)+"/.well-known/openid-configuration", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		select {
		case <-s.exited:
			return fmt.Errorf("keycloak has exited: %s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("keycloak does not serve realm %s: %w: %s", realm, err, s.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tail returns the end of the log.
func (s *Server) tail() []byte {
	text, _ := os.ReadFile(s.log)
	return bytes.TrimSpace(text[max(0, len(text)-4000):])
}

func (s *Server) start(realms []Realm) error {
	installed, err := install()
	if err != nil {
		return err
	}
	for _, name := range []string{"data/import", "conf", "providers", "themes", "ca"} {
		if err := os.MkdirAll(filepath.Join(s.folder, name), 0o755); err != nil {
			return err
		}
	}
	for _, realm := range realms {
		text, err := json.Marshal(realm)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.folder, "data", "import", realm.Name+"-realm.json"), text, 0o600); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join(installed, "lib"), filepath.Join(s.folder, "lib")); err != nil {
		return err
	}
	if err := s.writeCertificate(); err != nil {
		return err
	}
	if s.Address, err = freeport.AddressAt(s.ip); err != nil {
		return err
	}
	return s.launch(installed)
}

// launch starts the process as bin/kc.sh of Keycloak does, with a home of its own: the installation is shared.
func (s *Server) launch(installed string) error {
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	logs, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	s.command = exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
		"-Dkc.home.dir="+s.folder, "-Djboss.server.config.dir="+s.path("conf"), "-cp", filepath.Join(installed, "lib", "quarkus-run.jar"),
		"io.quarkus.bootstrap.runner.QuarkusEntryPoint", "start", "--optimized", "--import-realm", "--cache=local",
		"--hostname=https://"+s.Address, "--http-host="+s.ip, "--https-port="+port,
		"--https-certificate-file="+s.path("ca/server.pem"), "--https-certificate-key-file="+s.path("key.pem"))
	s.command.Stdout, s.command.Stderr = logs, logs
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.command.Wait() // the log has the reason
		close(s.exited)
	}()
	return nil
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

// writeCertificate creates a certificate for the IP address.
func (s *Server) writeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Keycloak"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(s.ip)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	s.CA, s.CAFolder = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), s.path("ca")
	return errors.Join(
		os.WriteFile(s.path("ca/server.pem"), s.CA, 0o600),
		os.WriteFile(s.path("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600),
	)
}
