package workspace

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/quoin-dev/quoin/internal/content"
)

// draftProperty is the property of the meta of a workbook that has the draft of its dashboard.
const draftProperty = "dashboardDraft"

//go:embed schemas/dashboard.v1.json
var dashboardSchema []byte

// dashboard is the compiled schema.
var dashboard = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile("dashboard.v1.json", dashboardSchema) })

func compile(name string, text []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, document); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	return c.Compile(name)
}

// validate returns an error that names the place in a value that does not match a schema; field is the
// place of the value itself.
func validate(schema *jsonschema.Schema, field string, value any) error {
	err := schema.Validate(value)
	var mismatch *jsonschema.ValidationError
	if !errors.As(err, &mismatch) {
		return err
	}
	for len(mismatch.Causes) > 0 {
		mismatch = mismatch.Causes[0]
	}
	place := field
	for _, token := range mismatch.InstanceLocation {
		if strings.Trim(token, "0123456789") == "" && token != "" {
			place += "[" + token + "]"
		} else {
			place += "." + clip(token)
		}
	}
	return content.Errorf(content.Invalid, "%s: %s", place, mismatch.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}

// clip shortens a name of the caller.
func clip(name string) string {
	const most = 100
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return name
}

// checkMeta validates the draft in the meta of a workbook, and gives ids to its widgets. It removes a draft
// that is null. The meta must not be shared.
func checkMeta(meta Object) error {
	draft, exists := meta[draftProperty]
	if !exists {
		return nil
	}
	if draft == nil {
		delete(meta, draftProperty)
		return nil
	}
	return checkDraft("meta."+draftProperty, draft)
}

// checkDraft validates a draft, and gives an id to each widget without one: the first of w1, w2, … that is
// free. The same draft gets the same ids.
func checkDraft(field string, draft any) error {
	schema, err := dashboard()
	if err != nil {
		return err
	}
	if err := validate(schema, field, draft); err != nil {
		return err
	}
	object, _ := draft.(Object)
	widgets, _ := object["widgets"].([]any)
	used := map[string]bool{}
	for i, item := range widgets {
		widget, _ := item.(Object)
		id, _ := widget["id"].(string)
		if id != "" && used[id] {
			return content.Errorf(content.Invalid, "%s.widgets[%d].id: %q is the id of another widget", field, i, clip(id))
		}
		used[id] = true
	}
	next := 1
	for _, item := range widgets {
		widget, _ := item.(Object)
		if id, _ := widget["id"].(string); id != "" {
			continue
		}
		for used[fmt.Sprint("w", next)] {
			next++
		}
		widget["id"] = fmt.Sprint("w", next)
		next++
	}
	return nil
}

// Draft returns the draft of the dashboard of a workbook, in canonical form; nil if there is none.
func (wb *Workbook) Draft() *string {
	var meta map[string]json.RawMessage
	if err := json.Unmarshal([]byte(wb.Meta), &meta); err != nil || len(meta[draftProperty]) == 0 {
		return nil
	}
	draft := string(meta[draftProperty])
	return &draft
}

// HideDraft removes the draft of the dashboard from the meta, for callers who may not edit the workbook.
func (wb *Workbook) HideDraft() (err error) {
	if wb.Meta, err = withoutDraft(wb.Meta); err != nil {
		return fmt.Errorf("meta of workbook %d: %w", wb.ID, err)
	}
	return nil
}

// withoutDraft returns the meta of a workbook without the draft.
func withoutDraft(text string) (string, error) {
	meta, err := Decode([]byte(text))
	if err != nil {
		return "", err
	}
	if _, exists := meta[draftProperty]; !exists {
		return text, nil
	}
	delete(meta, draftProperty)
	return encode("meta", meta)
}
