package schema

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/displayname"
)

// isText reports whether values of the attribute are strings.
func (a *Attribute) isText() bool {
	return a.Type == String || a.Type == Reference || a.Type == Binary || a.Type == DateTime
}

func (a *Attribute) normalizeText(path string, value any) (any, error) {
	s, ok := value.(string)
	if !ok {
		return nil, wrongType(path, "of type "+string(a.Type), value)
	}
	switch a.Type {
	case DateTime:
		if _, err := ParseDateTime(s); err != nil {
			return nil, wrongType(path, "a dateTime such as 2026-01-31T12:00:00Z", value)
		}
	case Binary:
		if _, err := base64.StdEncoding.DecodeString(s); err != nil {
			if _, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "=")); err != nil {
				return nil, scimerror.Bad(scimerror.InvalidValue, "%s: must be base64", path)
			}
		}
	case Reference:
		if slices.Contains(a.ReferenceTypes, "external") && !isURI(s) {
			return nil, wrongType(path, "a URI such as https://example.com/ada", value)
		}
	}
	return s, a.checkName(path, s)
}

// checkName returns an error for a name that users cannot tell from another one or from none.
func (a *Attribute) checkName(path, s string) error {
	if !a.IsName {
		return nil
	}
	if err := displayname.Check(s); err != nil {
		return scimerror.Bad(scimerror.InvalidValue, "%s: %s", path, displayname.Rule)
	}
	if a.Required && strings.TrimSpace(s) == "" {
		return scimerror.Bad(scimerror.InvalidValue, "%s: is required and must not be blank", path)
	}
	return nil
}

// isURI reports whether a text is an absolute URI (RFC 3986). Characters beyond ASCII are accepted.
func isURI(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("<>\"{}|\\^`", r) }) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "" || u.Path != "")
}

// names are the attributes of the standard schemas that users see as names. Control characters and the like
// in them would deceive users.
var names = []string{"userName", "displayName", "nickName", "title", "name", "emails"}

// markNames sets IsName of the attributes that are names.
func markNames(attributes []*Attribute) {
	for _, a := range attributes {
		if !slices.Contains(names, a.Name) {
			continue
		}
		a.IsName = true
		for _, sub := range a.SubAttributes {
			sub.IsName = true
		}
	}
}
