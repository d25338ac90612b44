package filter

import (
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// ParsePath reads the path of a PATCH operation (RFC 7644 section 3.5.2), or a schema's URN
// alone. Errors are 400 invalidPath and tell the position.
func ParsePath(s string) (Path, error) {
	p := parser{lexer: lexer{text: s, fault: scimerror.InvalidPath}}
	path, err := p.wholePath()
	if err != nil {
		return Path{}, err
	}
	return path, nil
}

// ParseAttribute reads a path without a value filter, as attributes, excludedAttributes and
// sortBy have them (RFC 7644 section 3.10). Errors are 400 invalidPath and tell the position.
func ParseAttribute(s string) (Path, error) {
	p := parser{lexer: lexer{text: s, fault: scimerror.InvalidPath}}
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

// path reads a path, with the value filter in brackets if there is one.
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

// split takes the names out of a word. URNs have dots and digits in them (2.0), and what follows
// the last colon may be an attribute or the end of the URN: only a resource type can tell. So
// names after a URN may look like anything, and Resolve decides.
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

// isName tells whether a word can be the name of an attribute: ATTRNAME of RFC 7644 figure 1,
// and $ref.
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

// Resolve finds what the path, without its filter, leads to in a resource type: an attribute, a
// sub-attribute, or an extension as a whole when the path is its URN alone. It returns false
// when there is no such attribute; the core schema's URN alone is none.
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
