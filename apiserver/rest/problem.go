package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/internal/audit"
)

// Problem is the documented error: an object with one property.
type Problem struct {
	status int
	// Message names the field, what was given and what is allowed.
	Message string `json:"error" doc:"What was wrong: the field, what was given, what is allowed."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.status }

// The library asks this variable for the errors it makes itself.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		return &Problem{status: status, Message: describe(message, errs)}
	}
	// Lists are never null, so the document does not say that they may be.
	huma.DefaultArrayNullable = false
	// Names are what they are: {"Name": …} is not {"name": …}.
	huma.ValidateStrictCasing = true
}

// describe joins what validation found, a few of many.
func describe(message string, errs []error) string {
	const shown = 5
	var parts []string
	for _, err := range errs {
		var detail huma.ErrorDetailer
		if len(parts) == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(errs)-shown))
			break
		}
		if errors.As(err, &detail) {
			parts = append(parts, describeDetail(detail.ErrorDetail()))
		} else if err != nil {
			parts = append(parts, err.Error())
		}
	}
	if len(parts) == 0 {
		return message
	}
	return strings.Join(parts, "; ")
}

func describeDetail(d *huma.ErrorDetail) string {
	if d.Location == "" {
		return d.Message
	}
	field, given := strings.TrimPrefix(strings.TrimPrefix(d.Location, "body."), "query."), ""
	switch v := d.Value.(type) {
	case string:
		given = fmt.Sprintf(" %q:", clip(v))
	case float64, int, int64, bool:
		given = fmt.Sprintf(" %v:", v)
	}
	// What stands in a body may be a secret; the caller knows it.
	if d.Location == "body" || strings.HasPrefix(d.Location, "body.env_variables") || strings.HasPrefix(d.Location, "body.security_context") {
		given = ""
	}
	if given == ` "":` && strings.HasPrefix(d.Message, "unknown") {
		given = ""
	}
	return fmt.Sprintf("%s:%s %s", field, given, strings.TrimPrefix(d.Message, field+": "))
}

// clip shortens what callers send before it is shown.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	cut := s[:most]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}

func problem(status int, format string, args ...any) *Problem {
	return &Problem{status: status, Message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *Problem {
	return problem(http.StatusBadRequest, format, args...)
}

func forbidden(format string, args ...any) *Problem {
	return problem(http.StatusForbidden, format, args...)
}

func notFound(format string, args ...any) *Problem {
	return problem(http.StatusNotFound, format, args...)
}

func conflict(format string, args ...any) *Problem {
	return problem(http.StatusConflict, format, args...)
}

// toProblem is the one way from an error to an answer. Faults on this side are logged and
// said in general words.
func toProblem(ctx context.Context, err error) *Problem {
	var p *Problem
	var owned *edit.OwnedError
	kind := mayNotUse(err)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &owned):
		return conflict("%s", owned)
	case errors.Is(err, audit.ErrInvalid):
		return badRequest("%s", err)
	case errors.Is(err, audit.ErrUnavailable):
		log.FromContext(ctx).Error(err, "The audit log does not take or give events")
		return problem(http.StatusServiceUnavailable, "the audit log does not answer, and nothing is changed without it; try again")
	case apierrors.IsInvalid(err):
		return badRequest("%s", invalidMessage(err))
	case errors.Is(err, errTooSlow):
		return problem(http.StatusServiceUnavailable, "the change is stored but has not taken effect yet: look again later")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		log.FromContext(ctx).Error(err, "Kubernetes did not answer in time")
		return problem(http.StatusServiceUnavailable, "Kubernetes did not answer in time; try again")
	case apierrors.IsConflict(err):
		return conflict("the object is being changed by others; try again")
	case kind != "":
		log.FromContext(ctx).Error(err, "Objects of the account cannot be used: bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in the namespace",
			"kind", kind, "namespace", scopeOf(ctx).namespace())
		return problem(http.StatusServiceUnavailable, "quoin may not use the account's %s, which an administrator has to allow: try again later", kind)
	}
	log.FromContext(ctx).Error(err, "Request failed")
	return problem(http.StatusInternalServerError, "internal error")
}

// lent are kinds that the front end may use only where an administrator lets it, by their resources.
var lent = map[string]string{"secrets": "Secrets", "configmaps": "ConfigMaps"}

// mayNotUse is the lent kind of which Kubernetes has refused us an object: of an account, for others
// are not touched for a request. That is nothing that the caller may not do. Empty for other errors.
func mayNotUse(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	return lent[status.Status().Details.Kind]
}

// invalidMessage says what the API server refused, field by field.
func invalidMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		var causes []string
		for _, cause := range status.Status().Details.Causes {
			causes = append(causes, cause.Field+": "+cause.Message)
		}
		if len(causes) > 0 {
			return strings.Join(causes, "; ")
		}
	}
	return err.Error()
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&Problem{Message: message})
}
