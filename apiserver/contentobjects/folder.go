package contentobjects

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

type folderScope = reconciler.Scope[*v1alpha1.Folder]

type folders struct{ Options }

func newFolders(o Options, c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.Folder] {
	r := &folders{o}
	return &reconciler.Reconciler[*v1alpha1.Folder]{
		Client: c, Recorder: recorder, Clock: clk,
		New: func() *v1alpha1.Folder { return &v1alpha1.Folder{} }, Work: r.work, Delete: r.delete,
	}
}

func (r *folders) open(p *place) *folder.Folders {
	return &folder.Folders{DB: r.Database, Record: p.record, Deleted: workspace.FolderDeleted}
}

func (r *folders) work(ctx context.Context, s *folderScope) reconciler.Outcome {
	p, outcome := placeOf(ctx, r.Options, s, s.Object.Spec.DeploymentRef.Name)
	if outcome != nil {
		return *outcome
	}
	others, outcome := r.rival(ctx, s)
	if outcome != nil {
		return *outcome
	}
	parent, outcome := folderOf(ctx, s, "parentRef", s.Object.Spec.DeploymentRef, s.Object.Spec.ParentRef)
	if outcome != nil {
		return *outcome
	}
	if outcome := hold(ctx, s); outcome != nil {
		return *outcome
	}
	of := identity(managed.Folder, s.Object)
	// A Folder that was renamed has the folder of its former name until it is reconciled.
	replace := func(from managed.Object) bool { return others[from.Name] == nil || isSame(others[from.Name], s.Object) }
	applied, err := r.open(p).Apply(ctx, p.Scope, caller(of), managed.Options{Object: of, Adopt: ptr.Deref(s.Object.Spec.Adopt, false), Replace: replace},
		folder.Definition{Name: string(s.Object.Spec.Name), ParentID: parent, Position: s.Object.Spec.Position})
	if err != nil {
		return outcomeOf(err)
	}
	s.Object.Status.FolderID = applied.Folder.ID
	if applied.Corrected {
		s.Event(corev1.EventTypeNormal, v1alpha1.ReasonDriftCorrected, "Reconcile", "Folder %d had been changed elsewhere; it is what is defined again", applied.Folder.ID)
	}
	return done(fmt.Sprintf("Folder %d is what is defined", applied.Folder.ID))
}

// rival returns the outcome if an older Folder has the name, or if the Folder is in itself. Otherwise it returns all Folders by their
// names in Kubernetes, which must not be modified.
func (r *folders) rival(ctx context.Context, s *folderScope) (map[string]*v1alpha1.Folder, *reconciler.Outcome) {
	list := &v1alpha1.FolderList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		out := reconciler.Failed(err)
		return nil, &out
	}
	byName := map[string]*v1alpha1.Folder{}
	for i := range list.Items {
		other := &list.Items[i]
		byName[other.Name] = other
		if other.UID != s.Object.UID && isSame(other, s.Object) && isOlder(other, s.Object) {
			out := reconciler.Stalled(v1alpha1.ReasonConflict, fmt.Sprintf("spec.name: %q is that of Folder %q, which is older; rename or delete one of them", s.Object.Spec.Name, other.Name))
			return nil, &out
		}
	}
	path := []string{s.Object.Name}
	for up := byName[parentOf(s.Object)]; up != nil && len(path) <= folder.MaxDepth; up = byName[parentOf(up)] {
		if path = append(path, up.Name); up.Name == s.Object.Name {
			out := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec.parentRef: the Folder is in itself: "+strings.Join(path, " in "))
			return nil, &out
		}
	}
	return byName, nil
}

// isSame reports whether two Folders define the same folder.
func isSame(a, b *v1alpha1.Folder) bool {
	return a.Spec.DeploymentRef == b.Spec.DeploymentRef && parentOf(a) == parentOf(b) && fold.Case(string(a.Spec.Name)) == fold.Case(string(b.Spec.Name))
}

// parentOf returns the name of the Folder that contains a Folder; empty at the root.
func parentOf(f *v1alpha1.Folder) string {
	if f.Spec.ParentRef == nil {
		return ""
	}
	return f.Spec.ParentRef.Name
}

func (r *folders) delete(ctx context.Context, s *folderScope) reconciler.Outcome {
	var notEmpty *content.Error
	out := release(ctx, r.Options, s, s.Object.Spec.DeploymentRef.Name, func(p *place) error {
		err := r.open(p).Release(ctx, p.Scope, identity(managed.Folder, s.Object), s.Object.Spec.DeletionPolicy == v1alpha1.RetainContent)
		if errors.As(err, &notEmpty) && notEmpty.Reason != content.Invalid {
			notEmpty = nil
		}
		return err
	})
	if notEmpty != nil {
		return reconciler.Stalled(v1alpha1.ReasonFolderNotEmpty, notEmpty.Message+"; or set spec.deletionPolicy to Retain").RequeueIn(waitInterval)
	}
	return out
}
