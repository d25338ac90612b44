package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// maxCompilerMessage is the maximum length of a compiler's message, in bytes.
const maxCompilerMessage = 1024

// ReadMeta interprets a pod's response to a request for its metadata. The reason is WarmUpCompiled,
// WarmUpNotAllowed, WarmUpBroken or WarmUpNoAnswer; the message does not contain any of secrets.
//
// The server responds with 500 and an error if the model does not compile, and with 400 for errors
// of the model's author (UserError); the request itself cannot cause either. Source:
// packages/cubejs-api-gateway/src/gateway.ts, handleError.
func ReadMeta(status int, body []byte, secrets ...string) (reason, message string) {
	text := errorText(body)
	switch {
	case status == http.StatusOK && text == "":
		return WarmUpCompiled, "The pod has compiled its data model"
	case status == http.StatusForbidden && strings.HasPrefix(text, "API scope is missing"):
		return WarmUpNotAllowed, "The deployment's settings forbid access to the metadata, so it is unknown whether the model compiles: " + text
	case (status == http.StatusInternalServerError || status == http.StatusBadRequest) && text != "":
		return WarmUpBroken, compilerMessage(text, secrets)
	case text != "":
		return WarmUpNoAnswer, fmt.Sprintf("The pod returned status %d: %s", status, compilerMessage(text, secrets))
	}
	return WarmUpNoAnswer, fmt.Sprintf("The pod returned status %d without an error message", status)
}

// errorText returns the error of the server's response, or empty if it has none in the server's
// form.
func errorText(body []byte) string {
	var response struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &response) != nil || len(response.Error) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(response.Error, &text) != nil {
		text = string(response.Error)
	}
	return strings.TrimSpace(text)
}

var (
	// stackLine is a line of a JavaScript stack trace, with files of the image and not of the model.
	stackLine = regexp.MustCompile(`^\s*at .*[:)]\S*$`)
	colors    = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// userInfo matches credentials in a URL, assigned a value after a name such as password.
	userInfo = regexp.MustCompile(`://[^\s/@]+@`)
	assigned = regexp.MustCompile(`(?i)((?:pass(?:word|wd)?|secret|token|credentials?|api_?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;]+)`)
)

// compilerMessage returns a compiler's message on one line, without stack traces, colors and
// secrets, truncated to maxCompilerMessage.
func compilerMessage(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = colors.ReplaceAllString(text, "")
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
