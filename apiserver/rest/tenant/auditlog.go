package tenant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
)

func (a *api) auditLogsFamily() rest.Family {
	return rest.Family{Tag: "Audit Log", Description: "Changes of the account: actor, object, time and source.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/audit-logs/export", "exportAuditLogs", v1alpha1.PermissionAuditLogManage, "Export the audit log as CSV", a.exportAuditLog).WithMediaType("text/csv"),
	}}
}

// ExportInput has the filters. Events that match all of them are exported.
type ExportInput struct {
	Start     string `query:"start" maxLength:"40" doc:"Start of the period: a date, 2026-11-21, from its beginning in UTC, or a time, 2026-11-21T10:00:00Z."`
	End       string `query:"end" maxLength:"40" doc:"End of the period: a time, exclusive; or a date, inclusive."`
	Search    string `query:"search" maxLength:"1000" doc:"Words that all occur in the data of the event; prefixes match."`
	EventName string `query:"eventName" maxLength:"256" doc:"Name of the events, such as Created deployment."`
	UserEmail string `query:"userEmail" maxLength:"320" doc:"E-mail address of the user, case-insensitive."`
}

// filter returns the filter that the parameters describe.
func (in *ExportInput) filter(account string) (audit.Filter, error) {
	f := audit.Filter{Account: account, Search: in.Search, EventName: in.EventName, UserEmail: in.UserEmail}
	var err error
	if f.Start, err = parseTime("start", in.Start, 0); err != nil {
		return f, err
	}
	if f.End, err = parseTime("end", in.End, 24*time.Hour); err != nil {
		return f, err
	}
	if !f.Start.IsZero() && !f.End.IsZero() && f.Start.After(f.End) {
		return f, rest.BadRequest("start: %q is after end, %q", rest.Clip(in.Start), rest.Clip(in.End))
	}
	return f, nil
}

// parseTime parses an ISO 8601 date or time. For a date it returns its beginning plus length, for the
// empty string the zero time.
func parseTime(field, text string, length time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Add(length), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, rest.BadRequest("%s: %q is no date such as 2026-11-21, and no time such as 2026-11-21T10:00:00Z", field, rest.Clip(text))
}

// exportAuditLog streams the events. An error after the first event aborts the connection, so that a
// truncated file is not taken for a complete one.
func (a *api) exportAuditLog(ctx context.Context, in *ExportInput) (*huma.StreamResponse, error) {
	s := rest.ScopeFrom(ctx)
	switch {
	case !recording.IsOn(s.Account):
		return nil, rest.Forbidden("the audit log of account %q is not enabled", s.Account.Name)
	case a.AuditLog == nil:
		return nil, rest.Unavailable("the audit log is not available: quoin apiserver has no database")
	}
	f, err := in.filter(s.Account.Name)
	if err != nil {
		return nil, err
	}
	events, err := a.AuditLog.Query(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := recording.Do(ctx, audit.Event{Name: audit.ExportedAuditLog}); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("audit-log-%s-%s.csv", s.Account.Name, a.Now().UTC().Format("2006-01-02T150405Z"))
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", audit.CSVContentType)
		hc.SetHeader("Content-Disposition", `attachment; filename="`+name+`"`)
		hc.SetHeader("Cache-Control", "no-store")
		_, w := humago.Unwrap(hc)
		rows, err := audit.WriteCSV(streamWriter{w, http.NewResponseController(w)}, events)
		switch {
		case err == nil:
		case ctx.Err() != nil: // the client has disconnected
			panic(http.ErrAbortHandler)
		default:
			log.FromContext(ctx).Error(err, "Cannot complete an export of the audit log", "rows", rows)
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

// streamWriter extends the write deadline as long as the client reads.
type streamWriter struct {
	io.Writer
	control *http.ResponseController
}

// streamTimeout is how long a client may read nothing.
const streamTimeout = time.Minute

// Write implements io.Writer.
func (w streamWriter) Write(data []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(streamTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.Writer.Write(data)
}
