package stream

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendDelta appends the encoding of a line that appends text, if none of its texts needs an escape: an answer has thousands of
// them, and encoding/json takes five times as long. The result is the same.
func (l *Line) appendDelta(to []byte) (_ []byte, ok bool) {
	switch {
	case !l.Delta() || l.IsInProcess == nil || l.Content == nil || l.Error != "" || l.ToolCall != nil || l.State != nil,
		len(*l.Content)+len(l.Thinking) > MaxDelta,
		!isPlain(l.ID) || !isPlain(string(l.Role)) || !isPlain(*l.Content) || !isPlain(l.Thinking),
		len(l.GraphPath) == 0 || slices.ContainsFunc(l.GraphPath, func(element string) bool { return !isPlain(element) }):
		return to, false
	}
	begin := len(to)
	to = append(append(to, `{"id":"`...), l.ID...)
	to = append(append(to, `","role":"`...), l.Role...)
	to = append(append(to, `","content":"`...), *l.Content...)
	if l.Thinking != "" {
		to = append(append(to, `","thinking":"`...), l.Thinking...)
	}
	to = append(to, `","graphPath":[`...)
	for i, element := range l.GraphPath {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(append(to, '"'), element...), '"')
	}
	to = strconv.AppendBool(append(to, `],"isDelta":true,"isInProcess":`...), *l.IsInProcess)
	to = append(strconv.AppendInt(append(to, `,"sort":`...), l.Sort, 10), '}')
	if len(to)-begin > MaxLine {
		return to[:begin], false
	}
	return to, true
}

// isPlain reports whether encoding/json writes a text as it is.
func isPlain(text string) bool {
	isASCII := true
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c == '"' || c == '\\':
			return false
		case c >= utf8.RuneSelf:
			isASCII = false
		}
	}
	return isASCII || utf8.ValidString(text) && !strings.ContainsAny(text, "\u2028\u2029")
}
