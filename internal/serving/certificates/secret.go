package certificates

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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is the default name of the Secret with the generated serving certificate.
const SecretName = "quoin-apiserver-tls" //nolint:gosec // a name, not a credential

// The keys of the Secret, besides tls.crt and tls.key. The CA's key is stored with the serving key,
// because a client that can read the latter can impersonate the server anyway.
const (
	keyAuthority           = "ca.crt"
	keyAuthorityPrivateKey = "ca.key"
)

const (
	// secretInterval is how often the Secret is read.
	secretInterval = time.Minute
	// maxNames limits the size of the certificate to that of a TLS handshake message.
	maxNames = 256
	// maxConflicts is the maximum number of attempts that conflict with writes of other replicas.
	maxConflicts = 5
)

// SecretOptions configure a generated serving certificate.
type SecretOptions struct {
	// Client must not read from a cache. It needs get and update of the Secret. If it may not
	// create Secrets, the Secret must exist, possibly empty; see EmptySecrets.
	Client client.Client
	// Name of the Secret, <server>-tls; SecretName if empty. The server is the subject of the
	// certificates.
	Name string
	// Namespace of the Secret, quoin's own.
	Namespace string
	// Names returns the DNS names and IP addresses of the server's own certificate, in order of
	// importance. Invalid names, and those after the 256th, are omitted and logged. Only
	// administrators may choose them. It is called by Run and Refresh, never concurrently.
	Names func() []string
	// Hosts returns the DNS names (the first label may be `*`) of tenants, each of which has a
	// certificate of its own. On an error, the previous ones are kept. Called like Names; may be nil.
	Hosts func() ([]string, error)
	// Clock is the real clock if nil.
	Clock clock.PassiveClock
	// Log is slog.Default() if nil.
	Log *slog.Logger
}

// secretSource generates a certificate and stores it in a Secret, so that all replicas use the
// same one. The first write wins: the Secret is created only if it does not exist, and updated with
// the resource version that was read. The other replicas use the stored certificate.
type secretSource struct {
	SecretOptions
	omitted []string
	hosts   *hostCertificates
}

// FromSecret manages a serving certificate, and the private CA that signs it, in a Secret, and issues
// certificates of tenants' hosts in memory. The certificate is valid for 90 days and renewed after 60,
// or when a name is missing; the CA is valid for ten years and replaced in the last one. Run checks the
// Secret once a minute; Refresh checks it at once, for example for a new host.
//
// A Secret of that name with a certificate but no ca.key belongs to another owner, and is not
// modified.
func FromSecret(ctx context.Context, o SecretOptions) (*Certificates, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log, o.Name = cmp.Or(o.Log, slog.Default()), cmp.Or(o.Name, SecretName)
	s := &secretSource{SecretOptions: o}
	s.hosts = &hostCertificates{server: s.subject(), clock: o.Clock}
	return newCertificates(ctx, s, secretInterval, o.Log)
}

// errMissing means that the Secret does not exist and that the server may not create it.
var errMissing = errors.New("it does not exist yet: quoin controller creates it")

// errConflict means that another replica wrote the Secret first.
var errConflict = errors.New("written by another replica at the same time")

func (s *secretSource) load(ctx context.Context) (*keyPair, error) {
	pair, err := s.loadOwn(ctx)
	if pair == nil || s.Hosts == nil {
		return pair, err
	}
	pair.hosts = s.hosts
	hosts, listError := s.Hosts()
	if listError != nil {
		return pair, errors.Join(err, fmt.Errorf("list the hosts of tenants: %w", listError))
	}
	s.hosts.update(pair.authority, hosts)
	return pair, err
}

// loadOwn loads the server's own certificate.
func (s *secretSource) loadOwn(ctx context.Context) (*keyPair, error) {
	names := s.names()
	var usable *keyPair
	for range maxConflicts {
		pair, err := s.try(ctx, names)
		if pair != nil {
			usable = pair
		}
		if !errors.Is(err, errConflict) {
			return usable, err
		}
	}
	return usable, s.wrap("write", errConflict)
}

// try reads the Secret and, if necessary, writes it once. With an error it also returns the stored
// certificate, if that is usable.
func (s *secretSource) try(ctx context.Context, names []string) (*keyPair, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, s.wrap("read", err)
	}
	missing := err != nil
	if missing {
		secret = EmptySecret(s.Namespace, s.Name)
	}
	if len(secret.Data[corev1.TLSCertKey]) > 0 && len(secret.Data[keyAuthorityPrivateKey]) == 0 {
		return nil, s.wrap("use", fmt.Errorf("its certificate is not managed by quoin: delete the Secret, or pass the certificate as files"))
	}
	stored, ca := decode(secret)
	reason, names := s.renewal(stored, ca, names)
	if reason == "" {
		return stored, nil
	}
	s.Log.Info("Issuing a serving certificate", "reason", reason, "names", names)
	issued, err := s.fill(secret, ca, names)
	if err != nil {
		return stored, s.wrap("fill", err)
	}
	if missing {
		err = s.Client.Create(ctx, secret)
	} else {
		err = s.Client.Update(ctx, secret)
	}
	// NotFound for an update means that the Secret was deleted meanwhile. For a create, it means
	// that the namespace does not exist, which is not a conflict.
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || !missing && apierrors.IsNotFound(err) {
		return stored, errConflict
	}
	if missing && apierrors.IsForbidden(err) {
		return stored, s.wrap("use", errMissing)
	}
	if err != nil {
		return stored, s.wrap("write", err)
	}
	return issued, nil
}

// subject returns the name of the server.
func (s *secretSource) subject() string { return strings.TrimSuffix(s.Name, "-tls") }

func (s *secretSource) wrap(verb string, err error) error {
	return fmt.Errorf("%s secret %s/%s: %w", verb, s.Namespace, s.Name, err)
}

// decode returns the usable certificate and CA of a Secret, or nil. A certificate that the CA has
// not signed is not usable.
func decode(secret *corev1.Secret) (*keyPair, *authority) {
	ca, err := parseAuthority(secret.Data[keyAuthority], secret.Data[keyAuthorityPrivateKey])
	if err != nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.certificate) != nil {
		return nil, ca
	}
	return &keyPair{Certificate: pair, ca: ca.certificatePEM, authority: ca}, ca
}

// renewal returns why a new certificate is needed, or empty, and its names. If a name is missing,
// the present names are kept until the next renewal by age: replicas whose caches differ must not
// remove each other's names.
func (s *secretSource) renewal(stored *keyPair, ca *authority, names []string) (string, []string) {
	switch now := s.Clock.Now(); {
	case ca == nil:
		return "there is no CA", names
	case stored == nil:
		return "there is no certificate", names
	case now.After(ca.certificate.NotAfter.Add(-authorityReserve)):
		return "the CA is about to expire", names
	case now.After(renewAt(stored.Leaf)):
		return "the certificate is about to expire", names
	}
	missing := slices.ContainsFunc(names, func(name string) bool { return stored.Leaf.VerifyHostname(name) != nil })
	if !missing {
		return "", names
	}
	all := slices.Concat(names, stored.Leaf.DNSNames)
	for _, ip := range stored.Leaf.IPAddresses {
		all = append(all, ip.String())
	}
	all, _ = clean(all)
	return "a name is missing", all
}

// renewAt returns when two thirds of a certificate's lifetime have passed.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3 * 2)
}

// fill stores a new certificate in secret, signed by ca or, if that is nil or about to expire, by
// a new CA.
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
	return &keyPair{Certificate: pair, ca: ca.certificatePEM, authority: ca}, err
}

// names returns the valid names in the form of a certificate. Omitted names are logged when they
// change.
func (s *secretSource) names() []string {
	names, omitted := clean(s.Names())
	if !slices.Equal(omitted, s.omitted) {
		s.omitted = omitted
		s.Log.Warn("Names omitted from the serving certificate", "names", omitted[:min(len(omitted), 10)], "count", len(omitted), "max", maxNames)
	}
	return names
}

// clean returns the first 256 valid names, in lower case, sorted and without duplicates, and the
// omitted ones.
func clean(all []string) (names, omitted []string) {
	seen := map[string]bool{}
	for _, name := range all {
		name = canonicalName(name)
		if seen[name] {
			continue
		}
		seen[name] = true
		if !isValidName(name) || len(names) == maxNames {
			omitted = append(omitted, name)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Sort(omitted)
	return names, omitted
}

// canonicalName returns a name in the form of a certificate.
func canonicalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// isValidName reports whether a name is an IP address or a DNS name, whose first label may be `*`.
func isValidName(name string) bool {
	return net.ParseIP(name) != nil || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) == 0
}

// CheckNames returns an error if one of the names is neither a DNS name nor an address.
func CheckNames(names []string) error {
	for _, name := range names {
		if !isValidName(name) {
			return fmt.Errorf("%q is not a DNS name or address", name)
		}
	}
	return nil
}
