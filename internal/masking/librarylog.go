package masking

import (
	"io"
	"strings"
)

// LibraryLog returns a writer for package log, which libraries such as net/http write to: it calls write
// with each message, without credentials and without the text of servers, which may be one.
func LibraryLog(write func(message string)) io.Writer { return libraryLog(write) }

type libraryLog func(message string)

// quoted are the texts after which net/http quotes what a server has sent.
var quoted = []string{" starting with ", "malformed "}

// Write implements io.Writer.
func (l libraryLog) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	for _, before := range quoted {
		if begin, _, found := strings.Cut(message, before); found {
			message = begin + before + Hidden
		}
	}
	l(Text(message))
	return len(line), nil
}
