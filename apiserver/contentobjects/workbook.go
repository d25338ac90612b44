package contentobjects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

type workbookScope = reconciler.Scope[*v1alpha1.Workbook]

type workbooks struct{ Options }

func newWorkbooks(o Options, c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.Workbook] {
	r := &workbooks{o}
	return &reconciler.Reconciler[*v1alpha1.Workbook]{
		Client: c, Recorder: recorder, Clock: clk,
		New: func() *v1alpha1.Workbook { return &v1alpha1.Workbook{} }, Work: r.work, Delete: r.delete,
	}
}

// caller is who changes content as an object defines it.
func caller(o managed.Object) workspace.Caller {
	return workspace.Caller{Principal: o.Kind + ":" + o.Name, Owner: o.Kind + ":" + o.Name, Access: access.Everything, ManagesReports: true}
}

func (r *workbooks) work(ctx context.Context, s *workbookScope) reconciler.Outcome {
	p, outcome := placeOf(ctx, r.Options, s, s.Object.Spec.DeploymentRef.Name)
	if outcome != nil {
		return *outcome
	}
	if outcome := r.rival(ctx, s); outcome != nil {
		return *outcome
	}
	folder, outcome := folderOf(ctx, s, "folderRef", s.Object.Spec.DeploymentRef, s.Object.Spec.FolderRef)
	if outcome != nil {
		return *outcome
	}
	content, outcome := r.content(ctx, s, p)
	if outcome != nil {
		return *outcome
	}
	definition, err := defined(&s.Object.Spec, content)
	if err != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
	}
	definition.FolderID = folder
	if outcome := hold(ctx, s); outcome != nil {
		return *outcome
	}
	of := identity(managed.Workbook, s.Object)
	applied, err := (&workspace.Workspace{DB: r.Database, Record: p.record}).Apply(ctx, p.Scope, caller(of),
		managed.Options{Object: of, Adopt: ptr.Deref(s.Object.Spec.Adopt, false), Replace: youngerOrGone}, *definition)
	if err != nil {
		return outcomeOf(err)
	}
	return report(s, applied)
}

// youngerOrGone takes over the workbook of another Workbook: slugs do not change, and no older Workbook has the slug.
func youngerOrGone(managed.Object) bool { return true }

// report writes the applied content to the status, and returns the outcome.
func report(s *workbookScope, applied *workspace.Applied) reconciler.Outcome {
	status := &s.Object.Status
	status.WorkbookID, status.PublishedVersion, status.DashboardPublicID = applied.Workbook.ID, 0, ""
	message := fmt.Sprintf("Workbook %d is what is defined", applied.Workbook.ID)
	if d := applied.Dashboard; d != nil {
		status.PublishedVersion, status.DashboardPublicID = d.Number, d.PublicID
		message += fmt.Sprintf("; version %d of its dashboard is shown", d.Number)
	}
	if len(applied.Extra) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDrifted)
	} else {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUndefinedReports,
			Message: extraReports(applied.Extra), ObservedGeneration: s.Object.Generation,
		})
	}
	if applied.Corrected {
		s.Event(corev1.EventTypeNormal, v1alpha1.ReasonDriftCorrected, "Reconcile", "Workbook %d had been changed elsewhere; it is what is defined again", applied.Workbook.ID)
	}
	return done(message)
}

// maxExtra is the maximum number of reports in a message.
const maxExtra = 20

func extraReports(extra []workspace.Report) string {
	shown := make([]string, 0, maxExtra)
	for i := range extra[:min(len(extra), maxExtra)] {
		shown = append(shown, fmt.Sprintf("%s (%s)", extra[i].PublicID, extra[i].Name))
	}
	if more := len(extra) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return "spec.definition.reports does not have reports of the workbook: " + strings.Join(shown, ", ") + "; add them, or set spec.prune to delete them"
}

// rival returns the outcome if an older Workbook has the slug.
func (r *workbooks) rival(ctx context.Context, s *workbookScope) *reconciler.Outcome {
	list := &v1alpha1.WorkbookList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		out := reconciler.Failed(err)
		return &out
	}
	for i := range list.Items {
		other := &list.Items[i]
		isSame := other.Spec.Slug == s.Object.Spec.Slug && other.Spec.DeploymentRef == s.Object.Spec.DeploymentRef && other.UID != s.Object.UID
		if isSame && isOlder(other, s.Object) {
			out := reconciler.Stalled(v1alpha1.ReasonConflict, fmt.Sprintf("spec.slug: %q is that of Workbook %q, which is older; delete one of them", s.Object.Spec.Slug, other.Name))
			return &out
		}
	}
	return nil
}

func (r *workbooks) delete(ctx context.Context, s *workbookScope) reconciler.Outcome {
	return release(ctx, r.Options, s, s.Object.Spec.DeploymentRef.Name, func(p *place) error {
		w := &workspace.Workspace{DB: r.Database, Record: p.record}
		return w.Release(ctx, p.Scope, identity(managed.Workbook, s.Object), s.Object.Spec.DeletionPolicy == v1alpha1.RetainContent)
	})
}

// folderOf returns the id of the folder of a Folder that an object refers to; the root without a reference.
func folderOf[T v1alpha1.Object](
	ctx context.Context, s *reconciler.Scope[T], field string, deployment v1alpha1.LocalReference, ref *v1alpha1.LocalReference,
) (int64, *reconciler.Outcome) {
	if ref == nil {
		return workspace.Root, nil
	}
	f := &v1alpha1.Folder{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.GetNamespace(), Name: ref.Name}, f)
	var out reconciler.Outcome
	switch {
	case apierrors.IsNotFound(err):
		out = reconciler.NotFound(v1alpha1.ReasonFolderNotFound, fmt.Sprintf("spec.%s: Folder %q does not exist", field, ref.Name))
	case err != nil:
		out = reconciler.Failed(err)
	case f.Spec.DeploymentRef != deployment:
		out = reconciler.Stalled(v1alpha1.ReasonFolderNotFound, fmt.Sprintf(
			"spec.%s: Folder %q is of Deployment %q, not of %q", field, ref.Name, f.Spec.DeploymentRef.Name, deployment.Name))
	case f.Status.FolderID == 0:
		out = reconciler.Progressing(v1alpha1.ReasonFolderNotReady, fmt.Sprintf("spec.%s: Folder %q is not ready", field, ref.Name))
	default:
		return f.Status.FolderID, nil
	}
	return 0, &out
}

// defined returns the definition of a workbook in the form of the content store.
func defined(spec *v1alpha1.WorkbookSpec, d *v1alpha1.WorkbookDefinition) (*workspace.Definition, error) {
	out := &workspace.Definition{
		Slug: spec.Slug, Name: string(spec.Name), Publish: ptr.Deref(spec.Publish, false), AllowEmbed: ptr.Deref(spec.AllowEmbed, false),
		Prune: ptr.Deref(spec.Prune, false),
	}
	var err error
	if out.Draft, err = object("dashboardDraft", d.DashboardDraft); err != nil {
		return nil, err
	}
	if out.Meta, err = object("meta", d.Meta); err != nil {
		return nil, err
	}
	if _, exists := out.Meta["dashboardDraft"]; exists {
		return nil, fmt.Errorf("spec.definition.meta.dashboardDraft: it is not allowed; allowed: spec.definition.dashboardDraft")
	}
	for i := range d.Reports {
		r := &d.Reports[i]
		report := workspace.DefinedReport{PublicID: r.PublicID, Name: string(r.Name), Title: r.Title, JSONQuery: r.JSONQuery, SQLQuery: r.SQLQuery}
		if r.PivotItems != nil {
			text, err := json.Marshal(r.PivotItems)
			if err != nil {
				return nil, fmt.Errorf("spec.definition.reports[%d].pivotItems: %w", i, err)
			}
			if report.PivotItems, err = workspace.Decode(text); err != nil {
				return nil, fmt.Errorf("spec.definition.reports[%d].pivotItems: %w", i, err)
			}
		}
		if report.Meta, err = object(fmt.Sprintf("reports[%d].meta", i), r.Meta); err != nil {
			return nil, err
		}
		out.Reports = append(out.Reports, report)
	}
	return out, nil
}

// object parses a JSON object; nil without one.
func object(field string, value *apiextensionsv1.JSON) (workspace.Object, error) {
	if value == nil || len(value.Raw) == 0 {
		return nil, nil
	}
	o, err := workspace.Decode(value.Raw)
	if err != nil {
		return nil, fmt.Errorf("spec.definition.%s: %w; allowed: a JSON object", field, err)
	}
	return o, nil
}
