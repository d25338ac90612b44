package git

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"

	"github.com/quoin-dev/quoin/internal/masking"
)

// The keys of a credentials Secret, as in Flux's GitRepository documentation,
// heading "Secret reference". Other keys are ignored.
const (
	KeyUsername    = "username"
	KeyPassword    = "password" // for SSH: the passphrase of the identity
	KeyBearerToken = "bearerToken"
	KeyIdentity    = "identity"
	KeyKnownHosts  = "known_hosts"
	KeyCACert      = "ca.crt"
)

// Credentials authenticate to a remote and name the trusted servers. The zero
// value is anonymous over HTTPS and trusts the system's certificates; SSH
// always needs credentials. It formats as a placeholder.
type Credentials struct {
	http   httpAuth
	roots  []byte // PEM
	signer ssh.Signer
	hosts  hostKeys
	// secrets are the values that are hidden in texts of the server.
	secrets masking.Known
}

// hostKeys are the host keys of a known_hosts file.
type hostKeys struct {
	check      ssh.HostKeyCallback
	algorithms func(hostWithPort string) []string
}

// String implements fmt.Stringer; it omits the secrets.
func (Credentials) String() string { return "git.Credentials{…}" }

// GoString implements fmt.GoStringer; it omits the secrets.
func (Credentials) GoString() string { return "git.Credentials{…}" }

// ParseCredentials parses a Secret's data for a repository URL.
//
//   - https://: username and password, or bearerToken, or none of them; ca.crt
//     holds PEM certificates to trust in addition to the system's.
//   - ssh://: identity (a private key; password is its passphrase) and
//     known_hosts, both required: unknown hosts are not trusted.
//
// Newlines after a user name, password or token, which `kubectl create secret
// --from-file` keeps, are trimmed. The error wraps ErrInvalidCredentials or
// ErrInvalidURL; it names the key and omits its value.
func ParseCredentials(rawURL string, data map[string][]byte) (Credentials, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Credentials{}, invalid(ErrInvalidURL, "is not a URL")
	}
	switch u.Scheme {
	case "ssh":
		return parseSSH(data)
	case "https", "http":
		return parseHTTP(data)
	}
	return Credentials{}, invalid(ErrInvalidURL, "want %s", Options{}.allowedSchemes())
}

func parseHTTP(data map[string][]byte) (Credentials, error) {
	var c Credentials
	for _, key := range []string{KeyPassword, KeyBearerToken} {
		c.secrets.Add(key, text(data, key))
	}
	username, password, token := text(data, KeyUsername), text(data, KeyPassword), text(data, KeyBearerToken)
	switch {
	case token != "" && (username != "" || password != ""):
		return c, invalid(ErrInvalidCredentials, "keys %q and %q exclude each other", KeyBearerToken, KeyPassword)
	case token != "":
		c.http = func(req *http.Request) { req.Header.Set("Authorization", "Bearer "+token) }
	case username != "" && password != "":
		c.secrets.Add(KeyPassword, username+":"+password)
		c.http = func(req *http.Request) { req.SetBasicAuth(username, password) }
	case username != "":
		return c, invalid(ErrInvalidCredentials, "key %q is missing", KeyPassword)
	case password != "":
		return c, invalid(ErrInvalidCredentials, "key %q is missing", KeyUsername)
	}
	if strings.ContainsAny(token, "\r\n") {
		return Credentials{}, invalid(ErrInvalidCredentials, "key %q has more than one line", KeyBearerToken)
	}
	if pem := data[KeyCACert]; len(pem) > 0 {
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return Credentials{}, invalid(ErrInvalidCredentials, "key %q holds no certificate in PEM form", KeyCACert)
		}
		c.roots = pem
	}
	return c, nil
}

func parseSSH(data map[string][]byte) (Credentials, error) {
	for _, key := range []string{KeyIdentity, KeyKnownHosts} {
		if len(data[key]) == 0 {
			return Credentials{}, invalid(ErrInvalidCredentials, "key %q is missing", key)
		}
	}
	signer, err := parseIdentity(data[KeyIdentity], text(data, KeyPassword))
	if err != nil {
		return Credentials{}, err
	}
	hosts, err := parseKnownHosts(data[KeyKnownHosts])
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{signer: signer, hosts: hosts}
	c.secrets.Add(KeyPassword, text(data, KeyPassword))
	return c, nil
}

func parseIdentity(pem []byte, passphrase string) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(pem)
	var encrypted *ssh.PassphraseMissingError
	if !errors.As(err, &encrypted) {
		if err != nil {
			return nil, invalid(ErrInvalidCredentials, "key %q is not a private key", KeyIdentity)
		}
		return signer, nil
	}
	if passphrase == "" {
		return nil, invalid(ErrInvalidCredentials, "key %q is missing: the identity has a passphrase", KeyPassword)
	}
	signer, err = ssh.ParsePrivateKeyWithPassphrase(pem, []byte(passphrase))
	if err != nil {
		return nil, invalid(ErrInvalidCredentials, "key %q does not open the identity", KeyPassword)
	}
	return signer, nil
}

// parseKnownHosts writes a temporary file because the library reads files only;
// in /dev/shm in pods with a read-only root file system.
func parseKnownHosts(data []byte) (hostKeys, error) {
	file, err := os.CreateTemp("", "known_hosts-*")
	if err != nil {
		file, err = os.CreateTemp("/dev/shm", "known_hosts-*")
	}
	if err != nil {
		return hostKeys{}, localError("known_hosts", err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return hostKeys{}, localError("known_hosts", err)
	}
	db, err := gitssh.NewKnownHostsDb(file.Name())
	if err != nil {
		return hostKeys{}, invalid(ErrInvalidCredentials, "key %q is not in the format of known_hosts", KeyKnownHosts)
	}
	return hostKeys{check: db.HostKeyCallback(), algorithms: db.HostKeyAlgorithms}, nil
}

func text(data map[string][]byte, key string) string {
	return strings.TrimRight(string(data[key]), "\r\n")
}
