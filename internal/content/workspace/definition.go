package workspace

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the schema
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quoin-dev/quoin/internal/content"
)

//go:embed schemas/report.v1.json
var reportSchema []byte

// reportMeta is the compiled schema.
var reportMeta = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile("report.v1.json", reportSchema) })

// applyReport sets the properties of a change.
func applyReport(to *Report, in ReportChange) error {
	if in.PublicID != nil {
		if err := checkPublicID(*in.PublicID); err != nil {
			return err
		}
		if to.PublicID != "" && to.PublicID != *in.PublicID {
			return content.Errorf(content.Invalid, "publicId: report %d has %q, which cannot be changed", to.ID, to.PublicID)
		}
		to.PublicID = *in.PublicID
	}
	if in.Name != nil {
		if err := content.CheckName("name", *in.Name); err != nil {
			return err
		}
		to.Name = *in.Name
	}
	if in.Title != nil {
		if n := utf8.RuneCountInString(*in.Title); n > content.MaxName {
			return content.Errorf(content.Invalid, "title: it has %d characters; allowed: %d", n, content.MaxName)
		}
		if err := content.CheckText("title", *in.Title); err != nil {
			return err
		}
		to.Title = *in.Title
	}
	if err := applyPlace(to, in); err != nil {
		return err
	}
	return applyDefinition(to, in)
}

// applyPlace puts a report into a workbook or a folder.
func applyPlace(to *Report, in ReportChange) error {
	var folder, workbook int64
	if in.FolderID != nil {
		folder = *in.FolderID
	}
	if in.WorkbookID != nil {
		workbook = *in.WorkbookID
	}
	switch {
	case folder != Root && workbook != 0:
		return content.Errorf(content.Invalid, "folderId: %d goes with workbookId %d; allowed: one of them, because a report in a workbook is where the workbook is", folder, workbook)
	case workbook != 0:
		to.WorkbookID, to.FolderID = workbook, Root
	case folder != Root:
		to.WorkbookID, to.FolderID = 0, folder
	default:
		if in.WorkbookID != nil {
			to.WorkbookID = 0
		}
		if in.FolderID != nil {
			to.FolderID = Root
		}
	}
	return nil
}

func applyDefinition(to *Report, in ReportChange) (err error) {
	if in.JSONQuery != nil {
		if err := checkJSONQuery(*in.JSONQuery); err != nil {
			return err
		}
		to.JSONQuery = *in.JSONQuery
	}
	if in.SQLQuery != nil {
		if n := len(*in.SQLQuery); n > MaxObject {
			return content.Errorf(content.Invalid, "sqlQuery: it has %d bytes; allowed: %d", n, MaxObject)
		}
		if err := content.CheckText("sqlQuery", *in.SQLQuery); err != nil {
			return err
		}
		to.SQLQuery = *in.SQLQuery
	}
	if in.HasPivotItems {
		to.PivotItems = ""
		if in.PivotItems != nil {
			if to.PivotItems, err = encode("pivotItems", in.PivotItems); err != nil {
				return err
			}
		}
	}
	if in.HasMeta {
		if err := checkReportMeta(in.Meta); err != nil {
			return err
		}
		if to.Meta, err = encode("meta", in.Meta); err != nil {
			return err
		}
	}
	to.Checksum, err = checksum(to)
	return err
}

// checkJSONQuery returns an error for a query that is no JSON object and no list of them.
func checkJSONQuery(query string) error {
	if query == "" {
		return nil
	}
	if len(query) > MaxObject {
		return content.Errorf(content.Invalid, "jsonQuery: it has %d bytes; allowed: %d", len(query), MaxObject)
	}
	if _, err := parseQuery(query); err != nil {
		return content.Errorf(content.Invalid, "jsonQuery: %v; allowed: a JSON object as text, or a list of objects", err)
	}
	return nil
}

// parseQuery returns the value of a query.
func parseQuery(query string) (any, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(query))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("it is no JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON value")
	}
	switch v := value.(type) {
	case Object:
		return v, nil
	case []any:
		for i, item := range v {
			if _, ok := item.(Object); !ok {
				return nil, fmt.Errorf("[%d] is no object", i)
			}
		}
		return v, nil
	}
	return nil, errors.New("it is neither an object nor a list")
}

// checksum returns the SHA-256 of the queries and the pivot items of a report in canonical form.
func checksum(r *Report) (string, error) {
	var query any
	if r.JSONQuery != "" {
		var err error
		if query, err = parseQuery(r.JSONQuery); err != nil {
			return "", fmt.Errorf("jsonQuery of report %d: %w", r.ID, err)
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode([]any{r.SQLQuery, query, r.PivotItems}); err != nil {
		return "", fmt.Errorf("checksum of report %d: %w", r.ID, err)
	}
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:]), nil
}

// checkReportMeta validates the meta of a report.
func checkReportMeta(meta Object) error {
	schema, err := reportMeta()
	if err != nil {
		return err
	}
	if meta == nil {
		return nil
	}
	if err := validate(schema, "meta", meta); err != nil {
		return err
	}
	return checkSpec("meta.spec", meta["spec"])
}

// checkSpec returns an error if a chart reads data from elsewhere: what it shows is the result of the report.
func checkSpec(place string, value any) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := checkSpec(fmt.Sprintf("%s[%d]", place, i), item); err != nil {
				return err
			}
		}
	case Object:
		if data, ok := v["data"].(Object); ok && data["url"] != nil {
			return content.Errorf(content.Invalid, "%s.data.url: the data of a chart is the result of its report; allowed: no url", place)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkSpec(place+"."+clip(name), v[name]); err != nil {
				return err
			}
		}
	}
	return nil
}
