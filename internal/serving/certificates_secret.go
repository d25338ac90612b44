package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is the name of the Secret with the serving certificate that Quoin makes, unless
// SecretOptions.Name says otherwise.
const SecretName = "quoin-apiserver-tls" //nolint:gosec // a name, no credential

// The keys of the Secret, besides tls.crt and tls.key. The CA's key is beside what it signs:
// who reads the one can do with it all that the other allows.
const (
	keyAuthority           = "ca.crt"
	keyAuthorityPrivateKey = "ca.key"
)

const (
	// secretInterval is how often the Secret is read.
	secretInterval = time.Minute
	// maxNames keeps the certificate within a TLS handshake message.
	maxNames = 256
	// maxRaces is how often in a row another replica may be faster.
	maxRaces = 5
)

// SecretOptions say where and for what a serving certificate is made.
type SecretOptions struct {
	// Client must not read from a cache. It needs get and update of the Secret and, unless
	// an empty one was made beforehand, create of Secrets.
	Client client.Client
	// Name of the Secret, <server>-tls; SecretName when empty. The subjects of the
	// certificates say which server they are for.
	Name string
	// Namespace of the Secret, quoin's own.
	Namespace string
	// Names returns the DNS names (a first label `*` is allowed) and IP addresses that the
	// certificate is for, the most important ones first: what is neither, and what comes
	// after the 256th, is left out and logged. It is called by Run and Refresh, never twice
	// at a time.
	Names func() []string
	// Clock is the time; the real one when nil.
	Clock clock.PassiveClock
	// Log is slog.Default() when nil.
	Log *slog.Logger
}

// secretSource makes a certificate and keeps it in a Secret, so that all replicas show the
// same. Whoever writes first wins: the Secret is only created when it is not there, and only
// updated as it was read; the others take what is there.
type secretSource struct {
	SecretOptions
	omitted []string
}

// CertificatesFromSecret keeps a serving certificate, and a CA of its own that signs it, in
// a Secret. The certificate is valid for 90 days and renewed after
// 60, or when a name is missing; the CA is valid for ten years and replaced in the last one.
// Run looks once a minute; Refresh does so at once, say, for a new host.
//
// A Secret of that name with a certificate but no ca.key is somebody else's and not touched.
func CertificatesFromSecret(ctx context.Context, o SecretOptions) (*Certificates, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log, o.Name = cmp.Or(o.Log, slog.Default()), cmp.Or(o.Name, SecretName)
	return newCertificates(ctx, &secretSource{SecretOptions: o}, secretInterval, o.Log)
}

// errRace says that another replica wrote the Secret first.
var errRace = errors.New("written by another at the same time")

func (s *secretSource) load(ctx context.Context) (*keyPair, error) {
	names := s.names()
	var usable *keyPair
	for range maxRaces {
		pair, err := s.try(ctx, names)
		if pair != nil {
			usable = pair
		}
		if !errors.Is(err, errRace) {
			return usable, err
		}
	}
	return usable, s.wrap("write", errRace)
}

// try reads the Secret and, if it has to be, writes it, once. With an error it returns what
// the Secret has, if that can be shown.
func (s *secretSource) try(ctx context.Context, names []string) (*keyPair, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, s.wrap("read", err)
	}
	missing := err != nil
	if missing {
		secret = &corev1.Secret{Type: corev1.SecretTypeTLS, ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "quoin"},
		}}
	}
	if len(secret.Data[corev1.TLSCertKey]) > 0 && len(secret.Data[keyAuthorityPrivateKey]) == 0 {
		return nil, s.wrap("use", fmt.Errorf("it has a certificate that is not quoin's: delete it, or give the certificate in files"))
	}
	held, ca := decode(secret)
	reason, names := s.renewal(held, ca, names)
	if reason == "" {
		return held, nil
	}
	s.Log.Info("Making a serving certificate", "reason", reason, "names", names)
	made, err := s.fill(secret, ca, names)
	if err != nil {
		return held, s.wrap("fill", err)
	}
	if missing {
		err = s.Client.Create(ctx, secret)
	} else {
		err = s.Client.Update(ctx, secret)
	}
	// An update that finds nothing: the Secret was deleted meanwhile. A create that finds
	// nothing has no namespace, which is no race.
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || !missing && apierrors.IsNotFound(err) {
		return held, errRace
	}
	if err != nil {
		return held, s.wrap("write", err)
	}
	return made, nil
}

// subject is the server that the certificate is for.
func (s *secretSource) subject() string { return strings.TrimSuffix(s.Name, "-tls") }

func (s *secretSource) wrap(verb string, err error) error {
	return fmt.Errorf("%s secret %s/%s: %w", verb, s.Namespace, s.Name, err)
}

// decode returns what of a Secret can be used. A certificate that its CA has not signed
// cannot be.
func decode(secret *corev1.Secret) (*keyPair, *authority) {
	ca, err := parseAuthority(secret.Data[keyAuthority], secret.Data[keyAuthorityPrivateKey])
	if err != nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.certificate) != nil {
		return nil, ca
	}
	return &keyPair{Certificate: pair, ca: ca.certificatePEM}, ca
}

// renewal says why another certificate is needed, empty when none is, and for which names.
// When a name is missing, the names that are there stay: replicas that do not see the same
// accounts yet must not take each other's names away in turns. They go with the next
// renewal by age.
func (s *secretSource) renewal(held *keyPair, ca *authority, names []string) (string, []string) {
	switch now := s.Clock.Now(); {
	case ca == nil:
		return "there is no CA", names
	case held == nil:
		return "there is no certificate", names
	case now.After(ca.certificate.NotAfter.Add(-authorityReserve)):
		return "the CA is about to expire", names
	case now.After(renewAt(held.Leaf)):
		return "the certificate is about to expire", names
	}
	lacking := slices.ContainsFunc(names, func(name string) bool { return held.Leaf.VerifyHostname(name) != nil })
	if !lacking {
		return "", names
	}
	all := slices.Concat(names, held.Leaf.DNSNames)
	for _, ip := range held.Leaf.IPAddresses {
		all = append(all, ip.String())
	}
	all, _ = clean(all)
	return "a name is missing", all
}

// renewAt is when two thirds of a certificate's life are over.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// fill puts a new certificate into secret, signed by ca if that is good for another one and
// otherwise by a new one.
func (s *secretSource) fill(secret *corev1.Secret, ca *authority, names []string) (*keyPair, error) {
	now := s.Clock.Now()
	if ca == nil || now.After(ca.certificate.NotAfter.Add(-authorityReserve)) {
		var err error
		if ca, err = newAuthority(s.subject(), now); err != nil {
			return nil, err
		}
	}
	certificate, key, err := ca.issue(s.subject(), names, now)
	if err != nil {
		return nil, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey] = certificate
	secret.Data[corev1.TLSPrivateKeyKey] = key
	secret.Data[keyAuthority] = ca.certificatePEM
	secret.Data[keyAuthorityPrivateKey] = ca.keyPEM
	pair, err := tls.X509KeyPair(certificate, key)
	return &keyPair{Certificate: pair, ca: ca.certificatePEM}, err
}

// names returns the wanted names as they stand in a certificate. Others are logged, when
// they are not the same as the last time.
func (s *secretSource) names() []string {
	names, omitted := clean(s.Names())
	if !slices.Equal(omitted, s.omitted) {
		s.omitted = omitted
		s.Log.Warn("Names left out of the serving certificate", "names", omitted[:min(len(omitted), 10)], "count", len(omitted), "max", maxNames)
	}
	return names
}

// clean returns the first 256 valid names, in lower case, sorted and each once, and those
// that it left out.
func clean(wanted []string) (names, omitted []string) {
	seen := map[string]bool{}
	for _, name := range wanted {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if seen[name] {
			continue
		}
		seen[name] = true
		valid := net.ParseIP(name) != nil || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) == 0
		if !valid || len(names) == maxNames {
			omitted = append(omitted, name)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Sort(omitted)
	return names, omitted
}
