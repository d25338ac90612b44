package git

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const maxURLLength = 2048

// scpLike is git's short form of an SSH address: user@host:path.
var scpLike = regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:`)

// remote is a validated repository URL.
type remote struct {
	url *url.URL
	// display is the URL without user information, for messages.
	display string
}

// ValidateURL validates a repository URL: "https://host[:port]/path" without
// user information, or "ssh://[user@]host[:port]/path". The scp-like form
// user@host:path is rejected, so that a URL has one spelling.
// Options.AllowInsecure adds http://.
//
// The error wraps ErrInvalidURL, names the allowed forms and omits user
// information.
func ValidateURL(rawURL string, o Options) error {
	_, err := parseURL(rawURL, o)
	return err
}

func parseURL(rawURL string, o Options) (remote, error) {
	if len(rawURL) > maxURLLength {
		return remote{}, invalid(ErrInvalidURL, "longer than %d characters", maxURLLength)
	}
	if !strings.Contains(rawURL, "://") && scpLike.MatchString(rawURL) {
		return remote{}, invalid(ErrInvalidURL, "user@host:path is not allowed, want ssh://user@host/path")
	}
	if strings.ContainsFunc(rawURL, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return remote{}, invalid(ErrInvalidURL, "has blanks or control characters")
	}
	u, err := url.Parse(rawURL)
	if err != nil { // not wrapped: it quotes the URL
		return remote{}, invalid(ErrInvalidURL, "want %s", o.allowedSchemes())
	}
	r := remote{url: u, display: display(u)}
	if err := r.checkScheme(o); err != nil {
		return remote{}, err
	}
	return r, r.check()
}

func (r remote) checkScheme(o Options) error {
	switch r.url.Scheme {
	case "https", "ssh":
		return nil
	case "http":
		if o.AllowInsecure {
			return nil
		}
	}
	return invalid(ErrInvalidURL, "want %s", o.allowedSchemes())
}

func (o Options) allowedSchemes() string {
	if o.AllowInsecure {
		return "https://host/path, http://host/path or ssh://user@host/path"
	}
	return "https://host/path or ssh://user@host/path"
}

func (r remote) check() error {
	u := r.url
	_, password := u.User.Password()
	switch {
	case u.Hostname() == "":
		return invalid(ErrInvalidURL, "has no host")
	case strings.Trim(u.Path, "/") == "":
		return invalid(ErrInvalidURL, "has no path")
	case strings.ContainsFunc(u.Path, unicode.IsControl):
		return invalid(ErrInvalidURL, "has control characters")
	case password:
		return invalid(ErrInvalidURL, "must not have a password, use a Secret")
	case u.User != nil && u.Scheme != "ssh":
		return invalid(ErrInvalidURL, "must not have user information, use a Secret")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return invalid(ErrInvalidURL, "must not have a query or a fragment")
	}
	return nil
}

// display returns the URL without user information, query and fragment.
func display(u *url.URL) string {
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return clean.String()
}
