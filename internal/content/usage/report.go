package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// Dimension is what sums are divided by.
type Dimension string

// The dimensions.
const (
	ByDay      Dimension = "day"
	ByAgent    Dimension = "agent"
	ByEndpoint Dimension = "endpoint"
	ByCaller   Dimension = "caller"
	ByUser     Dimension = "user"
	BySource   Dimension = "source"
)

// Dimensions are all, in the order in which sums are sorted.
var Dimensions = []Dimension{ByDay, ByAgent, ByEndpoint, ByCaller, ByUser, BySource}

var columns = map[Dimension]string{ByDay: "day", ByAgent: "agent_id", ByEndpoint: "endpoint", ByCaller: "caller", ByUser: "user_name", BySource: "source"}

const (
	// MaxDays is the maximum number of days of a report.
	MaxDays = 400
	// MaxSums is the maximum number of sums of a report.
	MaxSums = 10_000
)

// Request selects the usage to report.
type Request struct {
	// From and To are days, both included.
	From, To time.Time
	// By divides the sums; they are always divided by currency.
	By []Dimension
	// Users limits the report to users and callers; nil for all.
	Users []string
}

// Sum is the usage of a group. Fields that the request does not divide by are zero.
type Sum struct {
	Day      time.Time
	Agent    int64
	Endpoint string
	Caller   string
	User     string
	Source   Source
	Currency string
	Runs     int64
	Amounts  Amounts
}

// Report returns sums of usage, ordered by their dimensions.
func (u *Usage) Report(ctx context.Context, s content.Scope, r Request) (sums []Sum, err error) {
	from, to := dayOf(r.From), dayOf(r.To)
	switch days := int(to.Sub(from)/(24*time.Hour)) + 1; {
	case days < 1:
		return nil, content.Errorf(content.Invalid, "to: %s is before from, %s", to.Format(time.DateOnly), from.Format(time.DateOnly))
	case days > MaxDays:
		return nil, content.Errorf(content.Invalid, "to: from and to include %d days; allowed: %d", days, MaxDays)
	}
	if r.Users != nil && len(r.Users) == 0 {
		return nil, nil
	}
	query, args := statement(s, r, from, to)
	err = u.DB.Read(ctx, func(q store.Querier) error {
		sums = nil
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var sum Sum
			var day, milliseconds int64
			a := &sum.Amounts
			if err := rows.Scan(&day, &sum.Agent, &sum.Endpoint, &sum.Caller, &sum.User, &sum.Source, &sum.Currency, &sum.Runs, &a.Cost,
				&a.InputTokens, &a.CachedTokens, &a.OutputTokens, &a.Requests, &a.ToolCalls, &milliseconds); err != nil {
				return err
			}
			if day != 0 {
				sum.Day = time.UnixMicro(day).UTC()
			}
			a.Duration = time.Duration(milliseconds) * time.Millisecond
			sums = append(sums, sum)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("sum up usage: %w", err)
	}
	if len(sums) > MaxSums {
		return nil, content.Errorf(content.Invalid, "by: there are more than %d sums; allowed: fewer days, or fewer of by", MaxSums)
	}
	return sums, nil
}

// statement returns the query of a report. Days are never 0, since no run began in 1970.
func statement(s content.Scope, r Request, from, to time.Time) (query string, args []any) {
	var selected, grouped []string
	for _, d := range Dimensions {
		switch {
		case slices.Contains(r.By, d):
			selected, grouped = append(selected, columns[d]), append(grouped, columns[d])
		case d == ByDay || d == ByAgent:
			selected = append(selected, "0")
		default:
			selected = append(selected, "''")
		}
	}
	grouped = append(grouped, "currency")
	args = []any{s.Account.UID, s.Deployment.UID, from.UnixMicro(), to.UnixMicro()}
	where := "account_uid = $1 AND deployment_uid = $2 AND day BETWEEN $3 AND $4"
	if r.Users != nil {
		var marks []string
		for _, user := range r.Users {
			args = append(args, user)
			marks = append(marks, fmt.Sprintf("$%d", len(args)))
		}
		where += fmt.Sprintf(" AND (user_name IN (%[1]s) OR caller IN (%[1]s))", strings.Join(marks, ", "))
	}
	args = append(args, MaxSums+1)
	sums := []string{"COUNT(*)"}
	for _, column := range []string{"cost", "input_tokens", "cached_tokens", "output_tokens", "requests", "tool_calls", "milliseconds"} {
		sums = append(sums, "CAST(SUM("+column+") AS BIGINT)")
	}
	by := strings.Join(grouped, ", ")
	return fmt.Sprintf("SELECT %s, currency, %s FROM agent_usage WHERE %s GROUP BY %s ORDER BY %s LIMIT $%d",
		strings.Join(selected, ", "), strings.Join(sums, ", "), where, by, by, len(args)), args
}
