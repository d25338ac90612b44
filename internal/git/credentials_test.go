package git

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestValidateURL(t *testing.T) {
	valid := []string{
		"https://github.com/demo/model.git", "https://127.0.0.1:8443/a", "https://[::1]:8443/a.git",
		"ssh://git@github.com/demo/model.git", "ssh://github.com:2222/~demo/model.git",
	}
	for _, url := range valid {
		if err := ValidateURL(url, Options{}); err != nil {
			t.Errorf("ValidateURL(%q): %v", url, err)
		}
	}
	const insecure = "http://127.0.0.1/a.git"
	if err := ValidateURL(insecure, Options{}); !errors.Is(err, ErrInvalidURL) {
		t.Errorf("ValidateURL(%q) = %v, want ErrInvalidURL", insecure, err)
	}
	if err := ValidateURL(insecure, Options{AllowInsecure: true}); err != nil {
		t.Errorf("ValidateURL(%q), insecure: %v", insecure, err)
	}
}

func TestValidateURLRejects(t *testing.T) {
	tests := map[string]struct{ url, want string }{
		"empty":           {"", "want https://host/path or ssh://user@host/path"},
		"path":            {"/srv/a.git", "want https://host/path or ssh://user@host/path"},
		"other scheme":    {"ext::sh -c id", "has blanks"},
		"ftp":             {"ftp://example.com/a.git", "want https://"},
		"git":             {"git://example.com/a.git", "want https://"},
		"file":            {"file:///srv/a.git", "want https://"},
		"scp-like":        {"git@github.com:demo/model.git", "want ssh://user@host/path"},
		"password":        {"https://u:hunter2@example.com/a.git", "must not have a password, use a Secret"},
		"ssh password":    {"ssh://git:hunter2@example.com/a.git", "must not have a password, use a Secret"},
		"token as user":   {"https://hunter2@example.com/a.git", "must not have user information, use a Secret"},
		"no host":         {"https:///a.git", "has no host"},
		"no path":         {"https://example.com/", "has no path"},
		"query":           {"https://example.com/a.git?token=hunter2", "must not have a query"},
		"fragment":        {"https://example.com/a.git#hunter2", "must not have a query"},
		"blank":           {"https://example.com/a b.git", "has blanks"},
		"newline":         {"https://example.com/a.git\n", "has blanks"},
		"escaped newline": {"https://example.com/a%0a.git", "control characters"},
		"bad escape":      {"https://hunter2@example.com/%zz", "want https://"},
		"too long":        {"https://example.com/" + strings.Repeat("a", 3000), "longer than 2048"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := ValidateURL(tt.url, Options{})
			if !errors.Is(err, ErrInvalidURL) {
				t.Fatalf("error %v, want ErrInvalidURL", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q contains a secret", err)
			}
		})
	}
}

func TestParseCredentialsRejects(t *testing.T) {
	const https, ssh = "https://example.com/a.git", "ssh://git@example.com/a.git"
	_, plain := newKey(t, "")
	_, encrypted := newKey(t, "open sesame")
	hostKey, _ := newKey(t, "")
	hosts := knownHostsLine("example.com:22", hostKey.PublicKey())
	tests := map[string]struct {
		url  string
		data map[string]string
		want string
	}{
		"no password":      {https, map[string]string{KeyUsername: "hunter2"}, `key "password" is missing`},
		"no user":          {https, map[string]string{KeyPassword: "hunter2"}, `key "username" is missing`},
		"two methods":      {https, map[string]string{KeyBearerToken: "hunter2", KeyPassword: "hunter2", KeyUsername: "u"}, `keys "bearerToken" and "password" exclude each other`},
		"multi-line token": {https, map[string]string{KeyBearerToken: "hunter2\nhunter2"}, `key "bearerToken" has more than one line`},
		"CA":               {https, map[string]string{KeyCACert: "hunter2"}, `key "ca.crt" holds no certificate in PEM form`},
		"no SSH keys":      {ssh, nil, `key "identity" is missing`},
		"no known_hosts":   {ssh, map[string]string{KeyIdentity: plain}, `key "known_hosts" is missing`},
		"no identity":      {ssh, map[string]string{KeyKnownHosts: hosts}, `key "identity" is missing`},
		"identity":         {ssh, map[string]string{KeyIdentity: "hunter2", KeyKnownHosts: hosts}, `key "identity" is not a private key`},
		"no passphrase":    {ssh, map[string]string{KeyIdentity: encrypted, KeyKnownHosts: hosts}, `key "password" is missing: the identity has a passphrase`},
		"wrong passphrase": {ssh, map[string]string{KeyIdentity: encrypted, KeyKnownHosts: hosts, KeyPassword: "hunter2"}, `key "password" does not open the identity`},
		"known_hosts":      {ssh, map[string]string{KeyIdentity: plain, KeyKnownHosts: "hunter2 is no key\n"}, `key "known_hosts" is not in the format of known_hosts`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for k, v := range tt.data {
				data[k] = []byte(v)
			}
			_, err := ParseCredentials(tt.url, data)
			if !errors.Is(err, ErrInvalidCredentials) {
				t.Fatalf("error %v, want ErrInvalidCredentials", err)
			}
			if want := "invalid credentials: " + tt.want; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
	if _, err := ParseCredentials("ftp://example.com", nil); !errors.Is(err, ErrInvalidURL) {
		t.Errorf("error %v, want ErrInvalidURL", err)
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := credentials(t, "https://example.com/a", KeyUsername, "u", KeyPassword, testPassword)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, testPassword) {
			t.Errorf("%s prints %s", format, got)
		}
		if got := fmt.Sprintf(format, FetchOptions{Creds: c}); strings.Contains(got, testPassword) {
			t.Errorf("FetchOptions in %s prints %s", format, got)
		}
	}
}

func FuzzValidateURL(f *testing.F) {
	for _, seed := range []string{"", "https://a/b", "ssh://u:p@h/p", "git@h:p", "https://a/%0a", "https://[::1/a", "file:///a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r, err := parseURL(in, Options{AllowInsecure: true})
		if err != nil {
			if !errors.Is(err, ErrInvalidURL) {
				t.Fatalf("error %v, want ErrInvalidURL", err)
			}
			return
		}
		if strings.Contains(strings.SplitN(r.display, "/", 4)[2], "@") {
			t.Fatalf("%q is shown as %q", in, r.display)
		}
		address := withSuffix(withoutSuffix(r.url, "/"), infoRefsPath).String()
		if _, err := http.NewRequest(http.MethodGet, address, nil); err != nil {
			t.Fatalf("%q: accepted here, rejected by the library: %v", in, err)
		}
	})
}
