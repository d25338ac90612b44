package queries

import (
	"bufio"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
)

// mediaType is a format of results.
type mediaType struct {
	name, contentType string
	// extension of the name of a file; empty if clients do not keep the result in one.
	extension string
}

// The formats. The first is the default.
var (
	typeJSON  = mediaType{name: "application/json", contentType: "application/json"}
	typeCSV   = mediaType{name: "text/csv", contentType: "text/csv; charset=utf-8", extension: ".csv"}
	typeArrow = mediaType{name: "application/vnd.apache.arrow.stream", contentType: "application/vnd.apache.arrow.stream", extension: ".arrows"}
	formats   = []mediaType{typeJSON, typeCSV, typeArrow}
)

// accepted returns the format that a request prefers, of those that it accepts equally the first.
func accepted(header string) (mediaType, error) {
	if strings.TrimSpace(header) == "" {
		return formats[0], nil
	}
	var (
		best    mediaType
		quality float64
	)
	for _, f := range formats {
		if q := qualityOf(header, f.name); q > quality {
			best, quality = f, q
		}
	}
	if quality == 0 {
		var names []string
		for _, f := range formats {
			names = append(names, f.name)
		}
		return best, rest.NewProblem(http.StatusNotAcceptable, "Accept: %q; available: %s", rest.Clip(header), strings.Join(names, ", "))
	}
	return best, nil
}

// qualityOf returns how much an Accept header wants a media type, from 0 to 1: the most specific range decides.
func qualityOf(header, name string) float64 {
	kind, _, _ := strings.Cut(name, "/")
	ranges := []string{"*/*", kind + "/*", name}
	quality, specific := 0.0, -1
	for part := range strings.SplitSeq(header, ",") {
		of, parameters, err := mime.ParseMediaType(part)
		at := slices.Index(ranges, of)
		if err != nil || at <= specific {
			continue
		}
		specific, quality = at, 1
		if text, ok := parameters["q"]; ok {
			if quality, err = strconv.ParseFloat(text, 64); err != nil {
				quality = 0
			}
		}
	}
	return quality
}

// fileName returns a name that is safe in a header and in file systems.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), 100)], "-")
	if name == "" {
		return "report"
	}
	return name
}

// resultHead is a result in JSON, without its rows.
type resultHead struct {
	Columns      []query.Column     `json:"columns"`
	TimeZone     string             `json:"timeZone"`
	LastRefresh  *time.Time         `json:"lastRefresh,omitempty"`
	Stale        bool               `json:"stale"`
	LimitReached bool               `json:"limitReached"`
	Controls     []controls.Outcome `json:"controls"`
}

// write writes a result that is in memory.
func (r *response) write(result *query.Result) error {
	out := bufio.NewWriterSize(r, 32<<10)
	write := writeJSON
	if r.format == typeArrow {
		write = writeArrow
	}
	if err := r.begin(); err != nil {
		return err
	}
	if err := write(out, result, r.outcomes); err != nil {
		return err
	}
	return out.Flush()
}

// writeJSON writes a result with its rows, one after the other.
func writeJSON(out *bufio.Writer, result *query.Result, outcomes []controls.Outcome) error {
	head := resultHead{
		Columns: result.Columns, TimeZone: result.TimeZone, Stale: result.Stale, LimitReached: result.LimitReached, Controls: outcomes,
	}
	if !result.LastRefresh.IsZero() {
		head.LastRefresh = &result.LastRefresh
	}
	if head.Controls == nil {
		head.Controls = []controls.Outcome{}
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_, _ = out.Write(text[:len(text)-1]) // the writer keeps its error
	_, _ = out.WriteString(`,"rows":[`)
	for i, row := range result.Rows {
		if text, err = json.Marshal(row); err != nil {
			return err
		}
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(text)
	}
	_, err = out.WriteString("]}\n")
	return err
}
