package filter

import (
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// ParsePath parses the path of a PATCH operation (RFC 7644 section 3.5.2), or the URN of a schema. Errors are
// 400 invalidPath and contain the position.
func ParsePath(s string) (Path, error) { return Dialect{}.ParsePath(s) }

// ParsePath is like the function ParsePath, with the deviations of the dialect in value filters.
func (d Dialect) ParsePath(s string) (Path, error) {
	p := parser{Dialect: d, lexer: lexer{text: s, errorType: scimerror.InvalidPath}}
	path, err := p.wholePath()
	if err != nil {
		return Path{}, err
	}
	return path, nil
}

// ParseAttribute parses a path without a value filter, as in attributes, excludedAttributes and sortBy (RFC
// 7644 section 3.10). Errors are 400 invalidPath and contain the position.
func ParseAttribute(s string) (Path, error) {
	p := parser{lexer: lexer{text: s, errorType: scimerror.InvalidPath}}
	if bracket := strings.IndexByte(s, '['); bracket >= 0 && len(s) <= MaxLength {
		return Path{}, p.unexpected(bracket, "an attribute without a value filter")
	}
	path, err := p.wholePath()
	if err != nil {
		return Path{}, err
	}
	return path, nil
}

func (p *parser) wholePath() (Path, error) {
	if err := p.begin("a path"); err != nil {
		return Path{}, err
	}
	path, err := p.path("an attribute")
	if err != nil {
		return Path{}, err
	}
	if p.space(); p.pos < len(p.text) {
		return Path{}, p.unexpected(p.pos, "the end")
	}
	return path, nil
}

// path parses a path with an optional value filter in brackets.
func (p *parser) path(want string) (Path, error) {
	path := Path{At: p.pos}
	word := p.word()
	if !path.split(word) {
		return Path{}, p.unexpected(p.pos, want)
	}
	p.pos += len(word)
	if p.peek() != '[' {
		return path, nil
	}
	if path.Sub != "" {
		return Path{}, p.unexpected(p.pos, "no value filter after a sub-attribute")
	}
	if err := p.brackets(&path); err != nil {
		return Path{}, err
	}
	if !p.take('.') {
		return path, nil
	}
	sub := p.word()
	if !isName(sub) {
		return Path{}, p.unexpected(p.pos, "a sub-attribute")
	}
	path.Sub = sub
	p.pos += len(sub)
	return path, nil
}

func (p *parser) brackets(path *Path) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	p.pos++
	filter, err := p.expression(0)
	if err != nil {
		return err
	}
	if p.space(); !p.take(']') {
		return p.unexpected(p.pos, "and, or, or ]")
	}
	path.Filter = filter
	return nil
}

// split splits a word into URN, name and sub-attribute, and reports whether it is a path. URNs contain dots
// and digits (2.0), and the part after the last colon may be an attribute or the end of the URN, which
// depends on the resource type. So names after a URN are not validated here: Resolve does.
func (p *Path) split(word string) bool {
	colon := strings.LastIndexByte(word, ':')
	if colon < 0 {
		name, sub, dotted := strings.Cut(word, ".")
		p.Name, p.Sub = name, sub
		return isName(name) && (!dotted || isName(sub))
	}
	p.URN, p.Name = word[:colon], word[colon+1:]
	dot := strings.LastIndexByte(p.Name, '.')
	if dot >= 0 {
		p.Name, p.Sub = p.Name[:dot], p.Name[dot+1:]
	}
	return p.URN != "" && p.Name != "" && (dot < 0 || p.Sub != "")
}

// isName reports whether a word is a valid attribute name: ATTRNAME of RFC 7644 figure 1, or $ref.
func isName(word string) bool {
	for i := range len(word) {
		c := word[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '$'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || '9' < c)) {
			return false
		}
	}
	return word != ""
}

// Resolve returns the attribute or sub-attribute of the path in a resource type, or the extension if the path
// is only its URN. It ignores the value filter. It returns false if there is no such attribute, and for the
// URN of the core schema.
func (p Path) Resolve(t *schema.ResourceType) (schema.Ref, bool) {
	if ref, ok := t.Resolve(p.URN, p.Name, p.Sub); ok {
		return ref, true
	}
	if p.URN == "" || p.Filter != nil {
		return schema.Ref{}, false
	}
	urn := p.URN + ":" + p.Name
	if p.Sub != "" {
		urn += "." + p.Sub
	}
	if t.Extension(urn) == nil {
		return schema.Ref{}, false
	}
	return t.Resolve(urn, "", "")
}
