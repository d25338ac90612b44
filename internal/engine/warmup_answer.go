package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// maxCompilerMessage bounds what is kept of a compiler's message, in bytes.
const maxCompilerMessage = 1024

// ReadMeta says by a pod's answer on BasePath + PathMeta whether it has compiled its data model: one of
// WarmUpCompiled, WarmUpNotAllowed, WarmUpBroken and WarmUpNoAnswer, with a message that
// holds none of the secrets.
//
// The server answers 500 with a text when the model does not compile, and 400 for what its
// author can mend (a UserError); a question for the metadata has nothing else in it that
// could be wrong. Source: packages/cubejs-api-gateway/src/gateway.ts, handleError.
func ReadMeta(status int, body []byte, secrets ...string) (reason, message string) {
	text := errorText(body)
	switch {
	case status == http.StatusOK && text == "":
		return WarmUpCompiled, "The pod has compiled its data model"
	case status == http.StatusForbidden && strings.HasPrefix(text, "API scope is missing"):
		return WarmUpNotAllowed, "The settings of the deployment keep everybody from the metadata, so nobody can tell whether the model compiles: " + text
	case (status == http.StatusInternalServerError || status == http.StatusBadRequest) && text != "":
		return WarmUpBroken, compilerMessage(text, secrets)
	case text != "":
		return WarmUpNoAnswer, fmt.Sprintf("The pod answers %d: %s", status, compilerMessage(text, secrets))
	}
	return WarmUpNoAnswer, fmt.Sprintf("The pod answers %d without a text", status)
}

// errorText is what the server says is wrong; empty when it does not say so in its way.
func errorText(body []byte) string {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Error) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(answer.Error, &text) != nil {
		text = string(answer.Error)
	}
	return strings.TrimSpace(text)
}

var (
	// stackLine is a line of a JavaScript stack trace; it names files of the image, not of the model.
	stackLine = regexp.MustCompile(`^\s*at .*[:)]\S*$`)
	colours   = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// userInfo is a password in a URL, assigned one that follows a telling name.
	userInfo = regexp.MustCompile(`://[^\s/@]+@`)
	assigned = regexp.MustCompile(`(?i)((?:pass(?:word|wd)?|secret|token|credentials?|api_?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;]+)`)
)

// compilerMessage is what of a compiler's text is shown: without stack traces, colours and
// secrets, on one line, and not too long.
func compilerMessage(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = colours.ReplaceAllString(text, "")
	text = userInfo.ReplaceAllString(text, "://***@")
	text = assigned.ReplaceAllString(text, "${1}***")
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
		if line != "" && !stackLine.MatchString(line) {
			lines = append(lines, line)
		}
	}
	text = strings.TrimPrefix(strings.Join(lines, " | "), "Error: ")
	if len(text) > maxCompilerMessage {
		text = strings.ToValidUTF8(text[:maxCompilerMessage-3], "") + "..."
	}
	return strings.ToValidUTF8(text, "")
}
