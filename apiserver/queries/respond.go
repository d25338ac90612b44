package queries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
	"github.com/quoin-dev/quoin/internal/serving"
)

// errNoGateway is the answer of a server that cannot run queries.
var errNoGateway = rest.Unavailable("queries cannot be run: quoin apiserver has no --gateway-address")

// retryAfter is when to try again what was refused because of other runs, or of a data API that is not available.
const retryAfter = 5 * time.Second

// writeTimeout is how long a client may read nothing.
const writeTimeout = time.Minute

// busyError is a refusal that a client may try again later.
type busyError struct{ *rest.Problem }

func later(status int, format string, args ...any) error {
	return &busyError{rest.NewProblem(status, format, args...)}
}

// Unwrap returns the response.
func (e *busyError) Unwrap() error { return e.Problem }

// Respond runs a query for the caller, and writes its result in the format that the request accepts.
func (s *Service) Respond(ctx context.Context, r Request) (*huma.StreamResponse, error) {
	format, err := accepted(r.Accept)
	if err != nil {
		return nil, err
	}
	if s.runner == nil {
		return nil, errNoGateway
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		out := &response{ResponseWriter: w, control: http.NewResponseController(w), until: time.Now().Add(MaxDuration + writeTimeout), format: format, name: r.Name}
		err := s.run(hc.Context(), r, format, out)
		switch {
		case err == nil:
			return
		case out.begun || hc.Context().Err() != nil:
			if hc.Context().Err() == nil {
				log.FromContext(ctx).Info("A query failed after its first rows", "reason", problem(ctx, err).Message)
			}
			// The connection ends before the response does, so that a part of a result is not taken for all of it.
			panic(http.ErrAbortHandler)
		}
		out.refuse(ctx, err)
	}}, nil
}

// run runs the query and writes the result.
func (s *Service) run(ctx context.Context, r Request, format mediaType, out *response) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	// The library has set the first one, for the body: at its end net/http would end the request.
	if err := errors.Join(out.control.SetReadDeadline(time.Time{}), out.control.SetWriteDeadline(out.until)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	limits := query.Limits{Rows: MaxRows, Bytes: maxBytes, Duration: MaxDuration}
	ctx, cancel := context.WithTimeoutCause(ctx, MaxDuration, &query.LimitError{Limit: "duration", Allowed: MaxDuration.String()})
	defer cancel()
	ctx, stop := s.whileAllowed(ctx, r)
	defer stop()
	target, err := s.target(ctx, r)
	if err != nil {
		return err
	}
	plan, err := s.runner.Plan(ctx, r.Query, r.Controls, target, limits)
	if err != nil {
		return err
	}
	out.outcomes = plan.Outcomes
	if format == typeCSV {
		limits.Rows, limits.Bytes = MaxStreamedRows, maxStreamedBytes
		return s.stream(ctx, plan, target, limits, out)
	}
	result, err := s.runner.RunPlan(ctx, plan, target, limits)
	if err != nil {
		return err
	}
	defer result.Release()
	return out.write(result)
}

// stream writes the rows of a query as they come.
func (s *Service) stream(ctx context.Context, plan *query.Plan, target query.Target, limits query.Limits, out *response) error {
	file := query.NewCSV(out)
	err := s.runner.Stream(ctx, plan, target, limits, &streamedCSV{CSV: file, out: out})
	switch {
	case err == nil:
		return file.Flush()
	case out.begun:
		_ = file.Fail(problem(ctx, err).Message) // the connection ends in any case
		_ = out.control.Flush()
	}
	return err
}

// streamedCSV sends the header of the response when the first row has come, and rows as they come.
type streamedCSV struct {
	*query.CSV
	out  *response
	sent time.Time
}

// flushInterval is how long rows may wait for others that are sent with them.
const flushInterval = time.Second

// Begin implements query.Sink.
func (s *streamedCSV) Begin(r *query.Result) error {
	if err := s.out.begin(); err != nil {
		return err
	}
	if err := s.CSV.Begin(r); err != nil {
		return err
	}
	return s.flush()
}

// Row implements query.Sink.
func (s *streamedCSV) Row(row []any) error {
	if err := s.CSV.Row(row); err != nil || time.Since(s.sent) < flushInterval {
		return err
	}
	return s.flush()
}

func (s *streamedCSV) flush() error {
	s.sent = time.Now()
	if err := s.Flush(); err != nil {
		return err
	}
	return s.out.control.Flush()
}

// problem returns the response to an error of a run.
func problem(ctx context.Context, err error) *rest.Problem {
	var (
		busy        *busyError
		invalid     *query.InvalidError
		control     *controls.InvalidError
		limit       *query.LimitError
		server      *query.ServerError
		unavailable *query.UnavailableError
	)
	switch {
	case errors.As(err, &busy):
		return busy.Problem
	case errors.As(err, &invalid):
		return rest.BadRequest("%s", invalid)
	case errors.As(err, &control):
		return rest.BadRequest("controls.%s", control)
	case errors.As(err, &limit) && limit.Limit == "duration":
		return rest.NewProblem(http.StatusGatewayTimeout, "%s", limit)
	case errors.As(err, &limit):
		return rest.BadRequest("%s", limit)
	case errors.Is(err, query.ErrBusy):
		return rest.Unavailable("%s", err)
	case errors.As(err, &server):
		return rest.NewProblem(statusOf(server), "%s", server)
	case errors.As(err, &unavailable):
		return rest.NewProblem(http.StatusBadGateway, "%s", unavailable)
	}
	return rest.ProblemOf(ctx, err)
}

// statusOf returns the status for a refusal or failure of the data plane.
func statusOf(e *query.ServerError) int {
	switch {
	case e.Forbidden():
		return http.StatusForbidden
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return e.Status
	case e.Status == http.StatusOK, e.Status == http.StatusBadRequest:
		return http.StatusBadRequest
	}
	return http.StatusBadGateway // also 401 and 404: the request is Quoin's
}

// response is the response to a run.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	// until is when the response ends, also for a client that still reads: it has places and memory for results, which
	// others wait for.
	until    time.Time
	format   mediaType
	name     string
	outcomes []controls.Outcome
	begun    bool
}

// Write implements io.Writer. It extends the time of a client that reads.
func (r *response) Write(data []byte) (int, error) {
	deadline := time.Now().Add(writeTimeout)
	if deadline.After(r.until) {
		deadline = r.until
	}
	if err := r.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return r.ResponseWriter.Write(data)
}

// begin writes the header of a result.
func (r *response) begin() error {
	h := r.Header()
	h.Set("Content-Type", r.format.contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	if r.format.extension != "" {
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s%s"`, fileName(r.name), r.format.extension))
		for _, o := range skipped(r.outcomes) {
			h.Add(SkippedHeader, o)
		}
	}
	r.begun = true
	r.WriteHeader(http.StatusOK)
	return nil
}

// SkippedHeader has the controls that were not applied, in formats that have no place for them.
const SkippedHeader = "Quoin-Skipped-Control"

// maxSkipped limits the values of the header: a request may have many controls.
const maxSkipped = 20

// skipped returns the values of the header: the control, its member, and the reason as a quoted string.
func skipped(outcomes []controls.Outcome) []string {
	var out []string
	for _, o := range outcomes {
		if !o.Applied && len(out) < maxSkipped {
			out = append(out, fmt.Sprintf("%s; member=%s; reason=%s", o.Control, o.Member, strconv.QuoteToASCII(rest.Clip(o.Reason))))
		}
	}
	return out
}

// refuse responds with an error.
func (r *response) refuse(ctx context.Context, err error) {
	p := problem(ctx, err)
	if p.GetStatus() == http.StatusTooManyRequests || p.GetStatus() == http.StatusServiceUnavailable {
		serving.RetryAfter(r, retryAfter)
	}
	rest.WriteProblem(r, p)
}
