package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/neterror"
)

// maxError is the number of bytes of an error that are shown.
const maxError = 1000

// oneLine returns a text in one line.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxError {
		text = text[:maxError] + "…"
	}
	return text
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

// isUnavailable reports whether the API server cannot be reached or does not serve requests now.
func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err)
	}
	var request *url.Error
	failure := neterror.Classify(err)
	return errors.As(err, &request) && failure.Cause != neterror.Unknown && failure.Retryable()
}

// describe returns an error in one line, with what to do where that is known.
func (s *session) describe(err error) string {
	var status apierrors.APIStatus
	var request *url.Error
	unknown := unknownFields(err)
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case clientcmd.IsEmptyConfig(err):
		return "no cluster: there is no kubeconfig; set KUBECONFIG or --kubeconfig"
	case apierrors.IsUnauthorized(err):
		return "the API server " + s.host() + " rejects your credentials: log in again, or choose another --context"
	case isForbidden(err):
		return "not allowed: " + oneLine(err.Error()) + "; an administrator can bind the ClusterRole quoin-viewer, quoin-editor or quoin-admin"
	case isMissingKind(err):
		return "this cluster has no " + v1alpha1.GroupVersion.String() + " kind of that name: Quoin is not installed, or of a release that does not match this plugin (" + s.Version + ")"
	case len(unknown) > 0:
		return "nothing was changed: the installed CRDs do not know " + strings.Join(unknown, ", ") + "; upgrade them to the release of this plugin (" + s.Version + ")"
	case errors.As(err, &status):
		return oneLine(err.Error())
	case errors.As(err, &request):
		return s.unreachable(request)
	}
	return oneLine(err.Error())
}

// isMissingKind reports whether the API server does not know a resource, as opposed to an object.
func isMissingKind(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	// The path is unknown, so the response is not a Status of an API.
	details := status.Status().Details
	return details == nil || slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// unknownField is a field in the message of the API server for an object that fails strict validation.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// unknownFields returns the fields of a write that the installed CRD does not have.
func unknownFields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	// That of a patch begins with the object.
	message := err.Error()
	const marker = "strict decoding error: "
	begin := strings.LastIndex(message, marker)
	if begin < 0 {
		return nil
	}
	var fields []string
	for _, match := range unknownField.FindAllStringSubmatch(message[begin+len(marker):], -1) {
		fields = append(fields, match[1])
	}
	return fields
}

func (s *session) host() string {
	if s.config == nil {
		return ""
	}
	return s.config.Host
}

func (s *session) unreachable(err *url.Error) string {
	host, prefix := s.host(), "no cluster: "
	if u, parseErr := url.Parse(err.URL); parseErr == nil && u.Host != "" {
		if host = u.Scheme + "://" + u.Host; !strings.HasPrefix(s.host(), host) {
			prefix = "" // the address of --url
		}
	}
	var address *net.OpError
	if failure := neterror.Classify(err); failure.Cause != neterror.Unknown || errors.As(err, &address) {
		return fmt.Sprintf("%s%s cannot be reached: %s", prefix, host, failure.Message)
	}
	return fmt.Sprintf("%s: %s", host, oneLine(err.Err.Error()))
}
