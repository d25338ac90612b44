package certificates

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// filesInterval is how often the files are read. Their content is compared, because the kubelet
// replaces a symbolic link above them, which file events and times may not show.
const filesInterval = 5 * time.Second

// fileSource loads a certificate chain and its key from PEM files.
type fileSource struct {
	certificateFile, keyFile string

	sum  [sha256.Size]byte
	last *keyPair
}

// FromFiles loads a certificate (with its chain) and its key from PEM files, and Run loads them again
// every five seconds. If a new pair is invalid, the previous one remains in use. log is slog.Default()
// if nil.
func FromFiles(ctx context.Context, certificateFile, keyFile string, log *slog.Logger) (*Certificates, error) {
	s := &fileSource{certificateFile: certificateFile, keyFile: keyFile}
	return newCertificates(ctx, s, filesInterval, cmp.Or(log, slog.Default()))
}

func (s *fileSource) load(context.Context) (*keyPair, error) {
	certificate, err := os.ReadFile(s.certificateFile)
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	key, err := os.ReadFile(s.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key of the serving certificate: %w", err)
	}
	sum := sha256.Sum256(append(append(certificate[:len(certificate):len(certificate)], 0), key...))
	if s.last != nil && sum == s.sum {
		return s.last, nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("serving certificate %q with key %q: %w", s.certificateFile, s.keyFile, err)
	}
	s.sum, s.last = sum, &keyPair{Certificate: pair}
	return s.last, nil
}
