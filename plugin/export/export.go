// Package export turns workbooks of the REST API into objects that apply to the same content.
package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Folder is a folder of the REST API.
type Folder struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	ParentID int64  `json:"parentId"`
	Position int64  `json:"position"`
}

// Workbook is a workbook of the REST API.
type Workbook struct {
	ID        int64                      `json:"id"`
	Name      string                     `json:"name"`
	Slug      string                     `json:"slug"`
	FolderID  int64                      `json:"folderId"`
	Meta      map[string]json.RawMessage `json:"meta"`
	Published *struct {
		AllowEmbed bool            `json:"allowEmbed"`
		Config     json.RawMessage `json:"config"`
	} `json:"publishedDashboard"`
}

// Report is a report of the REST API.
type Report struct {
	ID        int64           `json:"id"`
	PublicID  string          `json:"publicId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	SQLQuery  string          `json:"sqlQuery"`
	JSONQuery string          `json:"jsonQuery"`
	Meta      json.RawMessage `json:"meta"`

	PivotItems *v1alpha1.WorkbookPivotItems `json:"pivotItems"`
}

// Place is where the objects are applied.
type Place struct {
	// Namespace is absent from the objects if it is empty.
	Namespace, Deployment string
	// Adopt makes the objects take over content of users.
	Adopt bool
}

// draftProperty is the property of the meta with the draft of the dashboard.
const draftProperty = "dashboardDraft"

// Folders returns the objects of a path of folders, which begins at the root.
func Folders(at Place, path []Folder) (objects []*v1alpha1.Folder) {
	parent := ""
	for i := range path {
		f := &path[i]
		o := &v1alpha1.Folder{TypeMeta: typeMeta("Folder"), ObjectMeta: at.meta(f.Name, "folder", f.ID)}
		o.Spec = v1alpha1.FolderSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: at.Deployment}, Name: v1alpha1.ContentName(f.Name), ParentRef: refTo(parent),
			Position: &path[i].Position, Adopt: at.adopt(),
		}
		objects, parent = append(objects, o), o.Name
	}
	return objects
}

// Of returns the object of a workbook in a folder, empty for the root. A workbook without a slug gets one.
func Of(at Place, w *Workbook, reports []Report, folder string) (*v1alpha1.Workbook, error) {
	o := &v1alpha1.Workbook{TypeMeta: typeMeta("Workbook"), ObjectMeta: at.meta(cmp.Or(w.Slug, w.Name), "workbook", w.ID)}
	o.Spec = v1alpha1.WorkbookSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: at.Deployment}, Slug: cmp.Or(w.Slug, o.Name), Name: v1alpha1.ContentName(w.Name),
		FolderRef: refTo(folder), Adopt: at.adopt(),
	}
	d := &v1alpha1.WorkbookDefinition{}
	o.Spec.Definition = d
	draft := w.Meta[draftProperty]
	if w.Published != nil {
		o.Spec.Publish = ptr.To(true)
		if w.Published.AllowEmbed {
			o.Spec.AllowEmbed = ptr.To(true)
		}
		if value(draft) == nil {
			draft = w.Published.Config
		}
	}
	var err error
	if d.DashboardDraft, err = portable(draft, reports); err != nil {
		return nil, fmt.Errorf("dashboard of workbook %d: %w", w.ID, err)
	}
	meta := map[string]json.RawMessage{}
	for name, part := range w.Meta {
		if name != draftProperty {
			meta[name] = part
		}
	}
	if len(meta) > 0 {
		text, err := json.Marshal(meta)
		if err != nil {
			return nil, fmt.Errorf("meta of workbook %d: %w", w.ID, err)
		}
		d.Meta = value(text)
	}
	for i := range reports {
		r := &reports[i]
		shown := v1alpha1.WorkbookReport{
			PublicID: r.PublicID, Name: v1alpha1.ContentName(r.Name), Title: r.Title, SQLQuery: r.SQLQuery, JSONQuery: r.JSONQuery,
			PivotItems: r.PivotItems, Meta: value(r.Meta),
		}
		if shown.Meta != nil && string(shown.Meta.Raw) == "{}" {
			shown.Meta = nil
		}
		d.Reports = append(d.Reports, shown)
	}
	return o, nil
}

// portable returns a dashboard whose charts refer to reports by public ids only: numbers are those of one installation.
func portable(dashboard json.RawMessage, reports []Report) (*apiextensionsv1.JSON, error) {
	if value(dashboard) == nil {
		return nil, nil
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(dashboard))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	byID := map[string]string{}
	for i := range reports {
		byID[strconv.FormatInt(reports[i].ID, 10)] = reports[i].PublicID
	}
	widgets, _ := fields["widgets"].([]any)
	for _, item := range widgets {
		widget, _ := item.(map[string]any)
		config, _ := widget["config"].(map[string]any)
		number, ok := config["reportId"].(json.Number)
		if widget["type"] != "CHART" || !ok {
			continue
		}
		if publicID, known := byID[number.String()]; known && config["reportPublicId"] == nil {
			config["reportPublicId"] = publicID
		}
		if config["reportPublicId"] != nil {
			delete(config, "reportId")
		}
	}
	text, err := json.Marshal(fields)
	return value(text), err
}

func (p Place) adopt() *bool {
	if !p.Adopt {
		return nil
	}
	return ptr.To(true)
}

var notAllowed = regexp.MustCompile(`[^a-z0-9]+`)

// meta returns the metadata of an object whose name is made of a name of content and its id.
func (p Place) meta(name, fallback string, id int64) metav1.ObjectMeta {
	const most = 40
	label := strings.Trim(notAllowed.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(label) > most {
		label = strings.Trim(label[:most], "-")
	}
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s-%d", cmp.Or(label, fallback), id)}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

func refTo(name string) *v1alpha1.LocalReference {
	if name == "" {
		return nil
	}
	return &v1alpha1.LocalReference{Name: name}
}

// value returns a JSON object; nil if there is none.
func value(text json.RawMessage) *apiextensionsv1.JSON {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	return &apiextensionsv1.JSON{Raw: text}
}
