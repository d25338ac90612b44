package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/export"
)

// exportOptions are the flags of `export`.
type exportOptions struct {
	apiFlags
	deployment string
	adopt      bool
}

func exportCommand(s *session) *cobra.Command {
	c := &cobra.Command{
		Use:     "export",
		GroupID: groupAPI,
		Short:   "Print content of a deployment as objects",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(exportWorkbookCommand(s))
	return c
}

func exportWorkbookCommand(s *session) *cobra.Command {
	o := &exportOptions{}
	c := &cobra.Command{
		Use:   "workbook ID|SLUG",
		Short: "Print a workbook and its folders as objects that apply to the same content",
		Long: `Prints a Workbook, with the Folders that contain it, in YAML. Applied to an empty deployment, they make the
same content: reports keep their public ids, and the draft of the dashboard is published if the workbook has a
published dashboard. It needs the permissions FolderRead, WorkbookRead and ReportRead: the verb get on
accounts/proxy, or an API key with --url.`,
		Example: `  kubectl quoin export workbook sales -n demo --deployment analytics > sales.yaml
  kubectl quoin export workbook 12 -n demo --deployment analytics --adopt | kubectl apply -f -`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.apiFlags.register(c)
	c.Flags().StringVar(&o.deployment, "deployment", "", "Name of the Deployment; required.")
	c.Flags().BoolVar(&o.adopt, "adopt", false, "Make the objects take over the workbook and the folders from which they are made.")
	_ = c.MarkFlagRequired("deployment")
	_ = c.RegisterFlagCompletionFunc("deployment", s.completeDeployment)
	c.RunE = run(func(ctx context.Context, args []string) error { return s.exportWorkbook(ctx, o, args[0]) })
	return c
}

func (s *session) exportWorkbook(ctx context.Context, o *exportOptions, name string) error {
	c, key, err := s.inNamespace(o.deployment)
	if err != nil {
		return err
	}
	d := &v1alpha1.Deployment{}
	if err := c.Get(ctx, key, d); err != nil {
		return err
	}
	from := contentOf{s, o, "/api/v1/deployments/" + d.Labels[v1alpha1.LabelID]}
	w, err := from.workbook(ctx, name)
	if err != nil {
		return err
	}
	at := export.Place{Namespace: d.Namespace, Deployment: d.Name, Adopt: o.adopt}
	var objects []any
	folder := ""
	if w.FolderID != 0 {
		var path []export.Folder
		if err := from.get(ctx, fmt.Sprintf("/folders/%d/ancestors", w.FolderID), &path); err != nil {
			return err
		}
		for _, f := range export.Folders(at, path) {
			objects, folder = append(objects, f), f.Name
		}
	}
	reports, err := pagesOf[export.Report](ctx, from, fmt.Sprintf("/reports?workbookId=%d", w.ID))
	if err != nil {
		return err
	}
	object, err := export.Of(at, w, reports, folder)
	if err != nil {
		return err
	}
	return printObjects(s.Stdout, append(objects, object))
}

// contentOf reads the content of a deployment over the REST API.
type contentOf struct {
	*session
	o    *exportOptions
	path string
}

func (c contentOf) get(ctx context.Context, path string, into any) error {
	a, err := c.api(ctx, &c.o.apiFlags, request{method: http.MethodGet, path: c.path + path})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// workbook returns a workbook by its id or its slug.
func (c contentOf) workbook(ctx context.Context, name string) (*export.Workbook, error) {
	w := &export.Workbook{}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return w, c.get(ctx, "/workbooks/"+name, w)
	}
	all, err := pagesOf[export.Workbook](ctx, c, "/workbooks")
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Slug == name {
			return w, c.get(ctx, fmt.Sprintf("/workbooks/%d", all[i].ID), w)
		}
	}
	return nil, fmt.Errorf("deployment %q has no workbook with the slug %q", c.o.deployment, name)
}

// pagesOf returns all items of a list.
func pagesOf[T any](ctx context.Context, c contentOf, path string) (all []T, err error) {
	parsed, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	for after := ""; ; {
		query := parsed.Query()
		query.Set("first", "100")
		if after != "" {
			query.Set("after", after)
		}
		var page struct {
			Items    []T `json:"items"`
			PageInfo struct {
				HasNextPage bool   `json:"hasNextPage"`
				EndCursor   string `json:"endCursor"`
			} `json:"pageInfo"`
		}
		if err := c.get(ctx, parsed.Path+"?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if after = page.PageInfo.EndCursor; !page.PageInfo.HasNextPage {
			return all, nil
		}
	}
}

// printObjects prints objects in YAML, without their status.
func printObjects(w io.Writer, objects []any) error {
	var out bytes.Buffer
	for i, o := range objects {
		data, err := json.Marshal(o)
		if err != nil {
			return err
		}
		fields := map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			return err
		}
		delete(fields, "status")
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		if data, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(data)
	}
	_, err := w.Write(out.Bytes())
	return err
}
