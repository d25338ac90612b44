package semantic

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// statement is what is read of SQL: it is not parsed.
type statement struct {
	// first is the first word in lower case, and names are all words and quoted names, without those of strings and comments.
	first string
	names map[string]bool
	// tables are those of the names that follow FROM or JOIN.
	tables map[string]bool
}

// keywords are words that are no names of columns.
var keywords = func() map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(`select from where group by order limit offset and or not in is null as on join left right inner outer full cross
		having distinct case when then else end between like ilike asc desc with union all measure cast interval extract true false exists using
		date_trunc coalesce nulls first last over partition`) {
		out[word] = true
	}
	return out
}()

// readSQL reads one statement. Words are in lower case; quoted names are as they are.
func readSQL(sql string) (*statement, error) {
	s := &statement{names: map[string]bool{}, tables: map[string]bool{}}
	ended, isTable := false, false
	for rest := sql; rest != ""; {
		token, kind, err := nextToken(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[len(token):]
		if kind == blank {
			continue
		}
		if ended {
			return nil, fmt.Errorf("it has more than one statement")
		}
		switch {
		case token == ";":
			ended = true
		case kind == word:
			name := strings.ToLower(token)
			if s.add(name, isTable); s.first == "" {
				s.first = name
			}
		case kind == quotedName:
			mark := token[:1]
			s.add(strings.ReplaceAll(token[1:len(token)-1], mark+mark, mark), isTable)
		}
		isTable = kind == word && (strings.EqualFold(token, "from") || strings.EqualFold(token, "join"))
	}
	return s, nil
}

func (s *statement) add(name string, isTable bool) {
	s.names[name] = true
	if isTable {
		s.tables[name] = true
	}
}

// tokenKind is a class of tokens.
type tokenKind int

const (
	blank tokenKind = iota // white space and comments
	word
	quotedName
	other // strings, numbers and symbols
)

// nextToken returns the token with which SQL begins, which is not empty.
func nextToken(sql string) (string, tokenKind, error) {
	r, size := utf8.DecodeRuneInString(sql)
	switch {
	case unicode.IsSpace(r):
		return sql[:size], blank, nil
	case strings.HasPrefix(sql, "--"):
		line, _, _ := strings.Cut(sql, "\n")
		return line, blank, nil
	case strings.HasPrefix(sql, "/*"):
		return comment(sql)
	case r == '\'':
		text, err := quoted(sql, '\'')
		return text, other, err
	case r == '"':
		text, err := quoted(sql, '"')
		return text, quotedName, err
	case r == '`':
		text, err := quoted(sql, '`')
		return text, quotedName, err
	case r == '$':
		return dollar(sql)
	case isWordStart(r):
		return sql[:wordLength(sql)], word, nil
	}
	return sql[:size], other, nil
}

func isWordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func wordLength(sql string) int {
	for i, r := range sql {
		if !isWordStart(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(sql)
}

// comment returns a comment, which may have others in it.
func comment(sql string) (string, tokenKind, error) {
	for i, depth := 0, 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			i++
			if depth--; depth == 0 {
				return sql[:i+1], blank, nil
			}
		}
	}
	return "", blank, fmt.Errorf("a comment has no end")
}

// quoted returns a text in quotation marks, in which two of them are one.
func quoted(sql string, mark byte) (string, error) {
	for i := 1; i < len(sql); i++ {
		if sql[i] != mark {
			continue
		}
		if i+1 < len(sql) && sql[i+1] == mark {
			i++
			continue
		}
		return sql[:i+1], nil
	}
	return "", fmt.Errorf("a text in quotation marks has no end")
}

// dollar returns a string such as $tag$text$tag$, or the sign of a parameter.
func dollar(sql string) (string, tokenKind, error) {
	n := wordLength(sql[1:])
	if len(sql) <= 1+n || sql[1+n] != '$' {
		return sql[:1], other, nil
	}
	tag := sql[:n+2]
	end := strings.Index(sql[len(tag):], tag)
	if end < 0 {
		return "", other, fmt.Errorf("a text after %.20s has no end", tag)
	}
	return sql[:len(tag)+end+len(tag)], other, nil
}
