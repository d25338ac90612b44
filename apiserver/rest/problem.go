package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/store"
)

// Problem is the documented error: an object with one property.
type Problem struct {
	status int
	// after is the time after which the request may be sent again; 0 if it is not known.
	after time.Duration
	// Message names the field, the value and the allowed values.
	Message string `json:"error" doc:"What was wrong: the field, what was given, what is allowed."`
}

// NewProblem returns an error with an HTTP status.
func NewProblem(status int, format string, args ...any) *Problem {
	return &Problem{status: status, Message: fmt.Sprintf(format, args...)}
}

// BadRequest returns an error with status 400.
func BadRequest(format string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, format, args...)
}

// Forbidden returns an error with status 403.
func Forbidden(format string, args ...any) *Problem {
	return NewProblem(http.StatusForbidden, format, args...)
}

// NotFound returns an error with status 404.
func NotFound(format string, args ...any) *Problem {
	return NewProblem(http.StatusNotFound, format, args...)
}

// Conflict returns an error with status 409.
func Conflict(format string, args ...any) *Problem {
	return NewProblem(http.StatusConflict, format, args...)
}

// Unavailable returns an error with status 503.
func Unavailable(format string, args ...any) *Problem {
	return NewProblem(http.StatusServiceUnavailable, format, args...)
}

// Error implements error.
func (p *Problem) Error() string { return p.Message }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.status }

// Later sets the time after which the request may be sent again, in full seconds.
func (p *Problem) Later(after time.Duration) *Problem {
	later := *p
	later.after = after
	return &later
}

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	if p.after <= 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.Itoa(int((p.after + time.Second - 1) / time.Second))}}
}

// Clip shortens a value of the caller for an error message.
func Clip(s string) string {
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

// describeErrors joins the first validation errors; it returns message if there are none. Other errors
// of the library, such as that of reading a body, are described by message alone.
func (op *operation) describeErrors(message string, errs []error) string {
	const most = 5
	var parts []string
	for _, err := range errs {
		var detail huma.ErrorDetailer
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(errs)-most))
			break
		}
		if errors.As(err, &detail) {
			parts = append(parts, op.describeDetail(detail.ErrorDetail()))
		}
	}
	if len(parts) == 0 {
		return message
	}
	return strings.Join(parts, "; ")
}

func (op *operation) describeDetail(d *huma.ErrorDetail) string {
	if d.Location == "" {
		return d.Message
	}
	if inBody, ok := strings.CutPrefix(d.Message, bodyLocation+"."); ok && d.Location == bodyLocation {
		return inBody // an error of decoding, which names the field
	}
	field, value := d.Location, ""
	for _, source := range []string{bodyLocation + ".", "query.", "path."} {
		field = strings.TrimPrefix(field, source)
	}
	switch v := d.Value.(type) {
	case string:
		value = fmt.Sprintf(" %q:", Clip(v))
	case float64:
		text, _ := json.Marshal(v) // 1000000, and not 1e+06
		value = fmt.Sprintf(" %s:", text)
	case int, int64, bool:
		value = fmt.Sprintf(" %v:", v)
	}
	// A body of the wrong type may be a secret as a whole.
	if d.Location == bodyLocation || op.isSecret(d.Location) {
		value = ""
	}
	if value == ` "":` && strings.HasPrefix(d.Message, "unknown") {
		value = ""
	}
	return fmt.Sprintf("%s:%s %s", field, value, strings.TrimPrefix(d.Message, field+": "))
}

// ActionError is the failure of one of the requests of an operation that reports their outcomes.
type ActionError struct {
	Status  int    `json:"status" minimum:"400" maximum:"599" doc:"What a request of its own would be answered."`
	Message string `json:"message"`
}

// ActionErrorOf returns the failure of one of several requests.
func ActionErrorOf(ctx context.Context, err error) ActionError {
	p := toProblem(ctx, err)
	return ActionError{p.GetStatus(), p.Message}
}

// toProblem maps the error of a handler to the response. Server-side failures are logged and not
// described to the caller.
func toProblem(ctx context.Context, err error) *Problem {
	var p *Problem
	var owned *fieldowner.OwnedError
	var rejected *content.Error
	kind := ungrantedKind(err)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &owned):
		return Conflict("%s", owned)
	case errors.Is(err, edit.ErrDeleted):
		return NotFound("it has just been deleted")
	case errors.Is(err, audit.ErrInvalid):
		return BadRequest("%s", err)
	case errors.Is(err, audit.ErrUnavailable):
		log.FromContext(ctx).Error(err, "The audit log does not take or give events")
		return Unavailable("the audit log does not answer, and nothing is changed without it; try again")
	case errors.Is(err, store.ErrUnknownOutcome):
		log.FromContext(ctx).Error(err, "The database did not confirm a change")
		return Unavailable("the database did not confirm the change, which may have been made: look again later")
	case errors.Is(err, store.ErrUnavailable):
		log.FromContext(ctx).Error(err, "The database is not available")
		return Unavailable("the database is not available, and nothing was changed; try again")
	case errors.As(err, &rejected):
		return NewProblem(rejectionStatus[rejected.Reason], "%s", rejected.Message)
	case apierrors.IsInvalid(err):
		return BadRequest("%s", invalidMessage(err))
	case errors.Is(err, freshness.ErrTimeout):
		return Unavailable("the change is stored but has not taken effect yet: look again later")
	case isTemporary(err):
		log.FromContext(ctx).Error(err, "Kubernetes did not answer in time")
		return Unavailable("Kubernetes did not answer in time; try again")
	case apierrors.IsConflict(err):
		return Conflict("the object is being changed by others; try again")
	case kind != "":
		log.FromContext(ctx).Error(err, "Objects of the account cannot be used: bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in the namespace",
			"kind", kind, "namespace", ScopeFrom(ctx).Namespace())
		return Unavailable("quoin may not use the account's %s; an administrator must grant access: try again later", kind)
	}
	log.FromContext(ctx).Error(err, "Request failed")
	return NewProblem(http.StatusInternalServerError, "internal error")
}

// rejectionStatus has the status of rejected requests for content.
var rejectionStatus = map[content.Reason]int{
	content.NotFound: http.StatusNotFound, content.Invalid: http.StatusBadRequest, content.Conflict: http.StatusConflict,
	content.Forbidden: http.StatusForbidden, content.BadGateway: http.StatusBadGateway, content.Unavailable: http.StatusServiceUnavailable,
}

// isTemporary reports whether a request to the Kubernetes API server may succeed later.
func isTemporary(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// namespaceGrantedKinds are the kinds, by resource, that quoin apiserver may use only in namespaces
// where an administrator grants it.
var namespaceGrantedKinds = map[string]string{"secrets": "Secrets", "configmaps": "ConfigMaps", "pods": "Pods"}

// ungrantedKind returns the namespace-granted kind that Kubernetes has forbidden quoin apiserver to
// use; empty for other errors. It is no 403, for the caller lacks no permission.
func ungrantedKind(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	return namespaceGrantedKinds[status.Status().Details.Kind]
}

// invalidMessage returns the causes of an Invalid error, field by field.
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

// ProblemOf returns the response to the error of a handler, for those that write their responses themselves.
func ProblemOf(ctx context.Context, err error) *Problem { return toProblem(ctx, err) }

// WriteProblem writes an error, for handlers that write their responses themselves.
func WriteProblem(w http.ResponseWriter, p *Problem) { writeProblem(w, p) }

func writeProblem(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_ = strictJSON.Marshal(w, p)
}
