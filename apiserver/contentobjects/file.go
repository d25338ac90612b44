package contentobjects

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// content returns the definition of a Workbook: its own, or that of a file in the repository of the deployment.
func (r *workbooks) content(ctx context.Context, s *workbookScope, p *place) (*v1alpha1.WorkbookDefinition, *reconciler.Outcome) {
	spec := &s.Object.Spec
	if spec.Definition != nil {
		s.Object.Status.Commit = ""
		return spec.Definition, nil
	}
	var out reconciler.Outcome
	if p.isConfigMap {
		out = reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"spec.fromPath: the data model of deployment %q is in a ConfigMap, and not in a Git repository; use spec.definition", spec.DeploymentRef.Name))
		return nil, &out
	}
	e := &v1alpha1.Environment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: v1alpha1.ProductionName(spec.DeploymentRef.Name)}, e)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		out = reconciler.Failed(err)
		return nil, &out
	case err != nil || e.Status.ModelCommit == "":
		out = reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "spec.fromPath: the production environment serves no commit of a Git repository").RequeueIn(conflictInterval)
		return nil, &out
	}
	text, err := r.ReadFile(ctx, p.Scope, e.Status.ModelCommit, spec.FromPath)
	if err != nil {
		out = outcomeOf(err)
		return nil, &out
	}
	d, err := parse(text)
	if err != nil {
		out = reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.fromPath: %s at commit %s: %v", spec.FromPath, e.Status.ModelCommit, err))
		return nil, &out
	}
	s.Object.Status.Commit = e.Status.ModelCommit
	return d, nil
}

// parse returns the definition in a file. It checks what the Kubernetes API checks of a definition in an object and the content
// store does not.
func parse(text []byte) (*v1alpha1.WorkbookDefinition, error) {
	d := &v1alpha1.WorkbookDefinition{}
	if err := yaml.UnmarshalStrict(text, d); err != nil {
		return nil, err
	}
	if len(d.Reports) > workspace.MaxInWorkbook {
		return nil, fmt.Errorf("reports: there are %d; allowed: %d", len(d.Reports), workspace.MaxInWorkbook)
	}
	seen := map[string]bool{}
	for i := range d.Reports {
		r := &d.Reports[i]
		if seen[r.PublicID] {
			return nil, fmt.Errorf("reports[%d].publicId: %q is the id of another report", i, r.PublicID)
		}
		seen[r.PublicID] = true
		if err := checkPivotItems(r.PivotItems); err != nil {
			return nil, fmt.Errorf("reports[%d].pivotItems.%w", i, err)
		}
	}
	return d, nil
}

// maxPivotItems is the maximum number of members of a list of pivot items.
const maxPivotItems = 1000

func checkPivotItems(p *v1alpha1.WorkbookPivotItems) error {
	if p == nil {
		return nil
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"rows", p.Rows}, {"columns", p.Columns}, {"measures", p.Measures}, {"filters", p.Filters}} {
		if list.items == nil || len(list.items) > maxPivotItems {
			return fmt.Errorf("%s: it has %d items, or is absent; allowed: a list of at most %d", list.name, len(list.items), maxPivotItems)
		}
	}
	for _, choice := range []struct {
		name    string
		value   *string
		allowed []string
	}{
		{"measuresAxis", p.MeasuresAxis, []string{"columns", "rows"}},
		{"measuresPosition", p.MeasuresPosition, []string{"before", "after"}},
		{"displayScale", p.DisplayScale, []string{"model", "absolute", "thousands", "millions", "billions"}},
	} {
		if choice.value != nil && !slices.Contains(choice.allowed, *choice.value) {
			return fmt.Errorf("%s: %q; allowed: %q", choice.name, reconciler.Clip(*choice.value, 100), choice.allowed)
		}
	}
	return nil
}

// servedCommit selects changes of the commit that an environment serves.
var servedCommit = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return commitOf(e.ObjectOld) != commitOf(e.ObjectNew) },
}

func commitOf(o client.Object) string {
	e, ok := o.(*v1alpha1.Environment)
	if !ok {
		return ""
	}
	return e.Status.ModelCommit
}

// workbooksFrom maps a production Environment to the Workbooks whose definition is in its repository.
func workbooksFrom(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, changed client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.WorkbookList{}, func(w *v1alpha1.Workbook) bool {
			return w.Spec.FromPath != "" && v1alpha1.ProductionName(w.Spec.DeploymentRef.Name) == changed.GetName()
		}, client.InNamespace(changed.GetNamespace()))
	}
}
