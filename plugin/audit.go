package plugin

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"
)

// auditColumns are the columns of the table, of those of the export.
var auditColumns = []string{"time", "event", "user_email", "actor", "deployment_name", "object", "outcome"}

// auditOptions are the flags of `audit`.
type auditOptions struct {
	output
	apiFlags
	start, end, search, event, user string
	limit                           int
}

func auditCommand(s *session) *cobra.Command {
	o := &auditOptions{}
	c := &cobra.Command{
		Use:     "audit",
		GroupID: groupRead,
		Short:   "Show the audit log of an account: who changed what",
		Long: `Exports the audit log over the REST API, and shows the newest events. It needs the permission
AuditLogManage: the verb delete on accounts/proxy, or an API key with --url. -o csv prints all columns of
all events.`,
		Example: `  kubectl quoin audit -n demo --search analytics
  kubectl quoin audit -n demo --start 2026-11-01 -o csv > audit.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.output.register(c, "csv")
	o.apiFlags.register(c)
	c.Flags().StringVar(&o.start, "start", "", "Beginning: a date or a time (RFC 3339).")
	c.Flags().StringVar(&o.end, "end", "", "End: a date, inclusive, or a time.")
	c.Flags().StringVar(&o.search, "search", "", "Words that all occur in the event.")
	c.Flags().StringVar(&o.event, "event", "", "Name of the events, such as \"Created deployment\".")
	c.Flags().StringVar(&o.user, "user-email", "", "E-mail address of the user.")
	c.Flags().IntVar(&o.limit, "limit", 50, "Number of events in a table, JSON and YAML, the newest; 0 for all.")
	o.validate = func([]string) error {
		if o.limit < 0 {
			return fmt.Errorf("--limit is %d, must not be negative", o.limit)
		}
		return nil
	}
	c.RunE = run(func(ctx context.Context, _ []string) error { return s.audit(ctx, o) })
	return c
}

func (s *session) audit(ctx context.Context, o *auditOptions) error {
	query := url.Values{}
	for name, value := range map[string]string{"start": o.start, "end": o.end, "search": o.search, "eventName": o.event, "userEmail": o.user} {
		if value != "" {
			query.Set(name, value)
		}
	}
	path := "/api/v1/audit-logs/export"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	a, err := s.api(ctx, &o.apiFlags, request{method: http.MethodGet, path: path})
	if err != nil {
		return err
	}
	if o.format == "csv" {
		_, err := s.Stdout.Write(a.body)
		return err
	}
	events, err := auditEvents(a.body, o.limit)
	if err != nil {
		return err
	}
	return o.print(s.Stdout, events, func(w io.Writer) error {
		rows := make([][]string, 0, len(events))
		for _, e := range events {
			row := make([]string, len(auditColumns))
			for i, column := range auditColumns {
				row[i] = e[column]
			}
			rows = append(rows, row)
		}
		return o.table(w, auditColumns, rows)
	})
}

// auditEvents returns the newest events of an export, by column, in the order of time.
func auditEvents(export []byte, limit int) ([]map[string]string, error) {
	records, err := csv.NewReader(bytes.NewReader(export)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the export of the audit log: %w", err)
	}
	if len(records) == 0 || !slices.Contains(records[0], "event") {
		return nil, errors.New("the export of the audit log has no header")
	}
	columns := records[0]
	records = records[1:]
	events := make([]map[string]string, 0, len(records))
	for _, record := range records {
		e := map[string]string{}
		for i, column := range columns {
			if record[i] != "" {
				e[column] = record[i]
			}
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b map[string]string) int { return bytes.Compare([]byte(a["time"]), []byte(b["time"])) })
	if limit > 0 && len(events) > limit {
		events = events[len(events)-limit:]
	}
	return events, nil
}
