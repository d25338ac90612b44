package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/neterror"
)

// maxMessage is how much of a message of a provider is shown, in bytes.
const maxMessage = 300

// Failure returns the error of a request or of a stream: the cause of the context if it has ended, an *Error as it is, and otherwise
// that of the network.
func Failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var failed *model.Error
	if errors.As(err, &failed) {
		return failed
	}
	return &model.Error{Kind: model.Unavailable, Message: "the provider of the model did not answer: " + neterror.Classify(err).Message}
}

// Malformed returns the error of a stream that is not as the protocol says.
func Malformed(reason string) *model.Error {
	return &model.Error{Kind: model.Malformed, Message: "the provider of the model has sent a malformed answer: " + reason}
}

// Event returns the error that an event of a stream reports: body is its data.
func Event(body []byte, key string) *model.Error { return classify(0, nil, body, key) }

// ofResponse returns the error of a response that is no stream.
func ofResponse(status int, header http.Header, body []byte, key string) *model.Error {
	switch {
	case status == http.StatusOK && report(body).isEmpty():
		return Malformed(fmt.Sprintf("its media type is %.100q; expected text/event-stream", header.Get("Content-Type")))
	case status == http.StatusOK:
		status = 0
	case status < http.StatusBadRequest:
		return &model.Error{Kind: model.Rejected, Status: status, Message: fmt.Sprintf("the provider of the model answered %d %s: its base URL is not that of an API", status, http.StatusText(status))}
	}
	return classify(status, header, body, key)
}

// reported is what the body of a failure says.
type reported struct{ message, class, code string }

func (r reported) isEmpty() bool { return r == reported{} }

// report reads the body of a failure. Known forms are {"error":{"message","type","code"}} of both protocols, {"error":"…"} and
// {"message":"…"} of servers; others have no report.
func report(body []byte) reported {
	type details struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	var outer struct {
		details
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return reported{}
	}
	inner, text := outer.details, ""
	if len(outer.Error) > 0 && json.Unmarshal(outer.Error, &text) == nil {
		inner = details{Message: text}
	} else if len(outer.Error) > 0 && json.Unmarshal(outer.Error, &inner) != nil {
		return reported{}
	}
	return reported{inner.Message, inner.Type, strings.Trim(string(inner.Code), `"`)}
}

// tooLong recognizes conversations that are longer than a model can read, by the code, the type or the message.
var tooLong = regexp.MustCompile(`(?i)context_length_exceeded|exceed_context_size|context[ _]length|context (window|size)|prompt is too long|too many (input )?tokens|maximum (input|prompt) length`)

// classes are the kinds of the types and codes that providers report.
var classes = map[string]model.Kind{
	"authentication_error": model.KeyRejected, "permission_error": model.KeyRejected, "invalid_api_key": model.KeyRejected,
	"rate_limit_error": model.RateLimited, "rate_limit_exceeded": model.RateLimited, "insufficient_quota": model.RateLimited, "billing_error": model.RateLimited,
	"overloaded_error": model.Unavailable, "api_error": model.Unavailable, "server_error": model.Unavailable, "timeout_error": model.Unavailable,
	"unavailable_error": model.Unavailable, "internal_server_error": model.Unavailable,
	"invalid_request_error": model.Rejected, "not_found_error": model.Rejected,
}

// classify returns a failure. Status is 0 for one that a stream reports.
func classify(status int, header http.Header, body []byte, key string) *model.Error {
	r := report(body)
	e := &model.Error{Kind: kind(status, r), Status: status, RetryAfter: retryAfter(header)}
	suffix := ""
	if status != 0 {
		suffix = fmt.Sprintf(" (status %d)", status)
	}
	switch e.Kind {
	case model.KeyRejected: // some providers repeat a part of the key
		e.Message = "the provider of the model does not accept the key" + suffix
	case model.RateLimited:
		e.Message = "the provider of the model accepts no more requests now" + suffix
	case model.TooLong:
		e.Message = "the conversation is longer than the model can read" + suffix
	case model.Unavailable:
		e.Message = "the provider of the model has failed or is overloaded" + suffix
	default:
		e.Message = "the provider of the model does not accept the request" + suffix
		if text := shown(r.message, key); text != "" {
			e.Message += ": " + text
		}
	}
	return e
}

func kind(status int, r reported) model.Kind {
	known, isKnown := classes[r.code]
	if !isKnown {
		known, isKnown = classes[r.class]
	}
	rejected := status == 0 || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status >= http.StatusInternalServerError
	switch {
	case status == http.StatusRequestEntityTooLarge, rejected && known != model.RateLimited && tooLong.MatchString(r.code+" "+r.class+" "+r.message):
		return model.TooLong
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.KeyRejected
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return model.RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return model.Unavailable
	case isKnown:
		return known
	case status == 0: // the provider has accepted the request
		return model.Unavailable
	}
	return model.Rejected
}

// shown returns a message of a provider for readers: its beginning, without control characters and without the key.
func shown(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "…")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return strings.TrimSpace(text)
}

// maxRetryAfter limits the wait that is reported.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the wait that a response asks for: seconds, or the time of a date.
func retryAfter(header http.Header) time.Duration {
	value, wait := header.Get("Retry-After"), time.Duration(0)
	if milliseconds, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && milliseconds < maxRetryAfter.Seconds()*1000 {
		wait = time.Duration(milliseconds * float64(time.Millisecond))
	} else if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		wait = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}
