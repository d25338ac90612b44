package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// fieldManager creates objects. Objects with fields of it have not been restored completely: the
	// last write gives the fields to their managers in the archive.
	fieldManager = "quoin-restore"
	// parallel is the number of objects that are restored at once.
	parallel = 8
	// maxConflicts is the number of conflicts that an error names.
	maxConflicts = 10
	// objectsLeftOut is skipped by a restore of only the content of an archive that has objects.
	objectsLeftOut = "the objects of the archive; its content belongs to their UIDs, and where the cluster has none with these, it is deleted after 24 hours"
)

// leases are those that the active controller and the active replica of `quoin apiserver`, with or without a content store,
// hold, with the Deployments of their pods.
var leases = [...]struct{ name, deployment string }{
	{"quoin-controller", "quoin-controller"},
	{"quoin-apiserver-content", "quoin-apiserver"},
}

var (
	// ErrConflict is returned if objects exist and differ from the archive.
	ErrConflict = errors.New("objects exist that differ from the archive")
	// ErrActive is returned while a controller or `quoin apiserver` is active.
	ErrActive = errors.New("a process of Quoin is active")
)

// Restore is where an archive is restored.
type Restore struct {
	// Client writes objects; nil restores none.
	Client client.Client
	// Secrets restores Secrets if the archive has them.
	Secrets bool
	// Content is the content store; nil restores none.
	Content Content
	// Owners are the packages with tables in the content store.
	Owners []store.Owner
	Clock  func() time.Time

	header  Header
	ledgers map[string]string
	mapped  *mapping
	mu      sync.Mutex
	summary Summary // guarded by mu
}

// Run restores an archive. open opens it, from its start each time. Before anything is written, the
// archive is read completely, and compared with the objects that exist. Run may be repeated after it
// was interrupted at any point.
func (r *Restore) Run(ctx context.Context, open func() (io.ReadCloser, error)) (Summary, error) {
	r.ledgers = map[string]string{}
	if err := r.verify(ctx, open); err != nil {
		return r.summary, err
	}
	if r.Client != nil {
		if err := r.compareAll(ctx, open); err != nil {
			return r.summary, err
		}
	}
	if r.Content != nil {
		if err := r.Content.Check(ctx, r.header.ID); err != nil {
			return r.summary, err
		}
	}
	r.mapped = newMapping()
	if r.Client != nil {
		if err := r.eachObject(ctx, open, r.restore); err != nil {
			return r.summary, err
		}
	}
	if r.Content == nil {
		return r.summary, nil
	}
	return r.summary, r.loadContent(ctx, open)
}

// LoadOnly restores the content of an archive that can be read only once. Nothing is written before
// its end.
func LoadOnly(ctx context.Context, from io.Reader, content Content) (Summary, error) {
	source, err := newReader(from)
	if err != nil {
		return Summary{}, err
	}
	if !source.header.Content {
		return Summary{}, errors.New("the archive has no content")
	}
	r := &Restore{mapped: newMapping()}
	r.skipObjects(source.header)
	err = content.Load(ctx, source.header, func() (store.Record, error) { return r.nextRecord(source) })
	if err != nil {
		return r.summary, err
	}
	return r.summary, source.drain()
}

// verify reads the whole archive, and checks that this Quoin can restore it.
func (r *Restore) verify(ctx context.Context, open func() (io.ReadCloser, error)) error {
	kinds := map[schema.GroupVersionKind]bool{}
	err := r.each(open, func(h Header) error {
		r.header = h
		switch {
		case r.Client != nil && !h.Objects:
			return errors.New("the archive has no objects")
		case r.Content != nil && !h.Content:
			return errors.New("the archive has no content: use --exclude-content to restore only objects")
		}
		r.skipObjects(h)
		return nil
	}, func(l line) error {
		switch {
		case l.Object != nil:
			kinds[l.Object.GroupVersionKind()] = true
		case l.Ledger != nil:
			r.ledgers[l.Ledger.Account] = l.Ledger.IDs
		case l.Content != nil && l.Content.Migrations != nil && r.Owners != nil:
			return store.CheckMigrations(r.Owners, l.Content.Migrations)
		}
		return nil
	})
	if err != nil || r.Client == nil {
		return err
	}
	for kind := range kinds {
		if _, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			return fmt.Errorf("the cluster has no kind %s in version %s: install the CRDs of Quoin %s or newer", kind.Kind, kind.Version, r.header.Version)
		} else if err != nil {
			return fmt.Errorf("look for kind %s: %w", kind.Kind, err)
		}
	}
	return r.checkInactive(ctx)
}

// skipObjects records that the objects of an archive are left out.
func (r *Restore) skipObjects(h Header) {
	if r.Client == nil && h.Objects {
		r.summary.Skipped = append(r.summary.Skipped, objectsLeftOut)
	}
}

// checkInactive returns ErrActive while a controller or `quoin apiserver` holds its lease: they would create objects and
// Secrets, and rows for the restored objects, before the rest is restored.
func (r *Restore) checkInactive(ctx context.Context) error {
	for _, l := range leases {
		if err := r.checkLease(ctx, l.name, l.deployment); err != nil {
			return err
		}
	}
	return nil
}

// checkLease returns ErrActive while the pod of a Deployment holds a lease.
func (r *Restore) checkLease(ctx context.Context, name, deployment string) error {
	lease := &coordinationv1.Lease{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.header.Namespace, Name: name}, lease)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	until := renewed.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	if holder == "" || r.Clock().After(until) {
		return nil
	}
	return fmt.Errorf("%w: %s holds lease %s/%s; stop it first: kubectl -n %s scale deployment/%s --replicas=0",
		ErrActive, holder, r.header.Namespace, name, r.header.Namespace, deployment)
}

// each calls each for the lines of an archive. It returns nil only if the archive is complete.
func (r *Restore) each(open func() (io.ReadCloser, error), header func(Header) error, each func(line) error) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	from, err := newReader(file)
	if err != nil {
		return err
	}
	if err := header(from.header); err != nil {
		return err
	}
	for {
		l, err := from.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(l); err != nil {
			return err
		}
	}
}

// eachObject calls each for the objects of the archive, several of the same kind at once.
func (r *Restore) eachObject(ctx context.Context, open func() (io.ReadCloser, error), each func(context.Context, *unstructured.Unstructured) error) error {
	kind := ""
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	err := r.each(open, r.sameArchive, func(l line) error {
		obj := l.Object
		if obj == nil || obj.GetKind() == secretKind.Kind && !r.Secrets {
			return groupCtx.Err()
		}
		if obj.GetKind() != kind {
			kind = obj.GetKind()
			if err := group.Wait(); err != nil {
				return err
			}
			group, groupCtx = errgroup.WithContext(ctx)
			group.SetLimit(parallel)
		}
		group.Go(func() error {
			if err := each(groupCtx, obj); err != nil {
				return fmt.Errorf("%s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
			}
			return nil
		})
		return groupCtx.Err()
	})
	if failed := group.Wait(); failed != nil {
		return failed
	}
	return err
}

// sameArchive returns an error if the file is another one than when it was verified.
func (r *Restore) sameArchive(h Header) error {
	if h.ID != r.header.ID {
		return errors.New("the archive was replaced while it was read")
	}
	return nil
}

// compareAll returns ErrConflict if objects exist that differ from the archive.
func (r *Restore) compareAll(ctx context.Context, open func() (io.ReadCloser, error)) error {
	r.mapped = newMapping()
	var mu sync.Mutex
	var conflicts []string
	err := r.eachObject(ctx, open, func(ctx context.Context, archived *unstructured.Unstructured) error {
		live, err := r.live(ctx, archived)
		if live == nil || err != nil {
			return err
		}
		r.mapped.add(archived, live)
		wanted, _, skip, err := r.mapped.restorable(archived, r.ledgers)
		// The owner of an object exists too, unless the object is of another owner.
		if err == nil && (skip != "" || !r.canContinue(wanted, live)) {
			mu.Lock()
			defer mu.Unlock()
			conflicts = append(conflicts, fmt.Sprintf("%s %s", archived.GetKind(), client.ObjectKeyFromObject(archived)))
		}
		return err
	})
	if err != nil || len(conflicts) == 0 {
		return err
	}
	slices.Sort(conflicts)
	more := ""
	if n := len(conflicts) - maxConflicts; n > 0 {
		conflicts, more = conflicts[:maxConflicts], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w: %s%s; delete them, or restore into an empty cluster", ErrConflict, strings.Join(conflicts, ", "), more)
}

// live returns the existing object with the name of an archived one, or nil.
func (r *Restore) live(ctx context.Context, archived *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(archived.GroupVersionKind())
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(archived), live)
	if apierrors.IsNotFound(err) {
		return nil, nil // absence is no error
	}
	return live, err
}

// canContinue reports whether an existing object is as wanted, or may be changed to be: Namespaces are
// kept as they are.
func (r *Restore) canContinue(wanted, live *unstructured.Unstructured) bool {
	return live.GetKind() == namespaceKind.Kind || r.isReplaceable(live) || isIdentical(wanted, live)
}

// isReplaceable reports whether an object is a Secret that exists in a new installation: it has been created
// to be filled, or has the certificate that a server generated when it started.
func (r *Restore) isReplaceable(live *unstructured.Unstructured) bool {
	return isEmptySecret(live) || live.GetKind() == secretKind.Kind && isManaged(live) && live.GetNamespace() == r.header.Namespace &&
		slices.Contains([]string{certificates.SecretName, certificates.GatewaySecretName}, live.GetName())
}

func isIdentical(wanted, live *unstructured.Unstructured) bool {
	if live.GetDeletionTimestamp() != nil {
		return false
	}
	for key, value := range wanted.Object {
		if key != "metadata" && !isPart(value, live.Object[key]) {
			return false
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		w, _, _ := unstructured.NestedMap(wanted.Object, "metadata", field)
		l, _, _ := unstructured.NestedMap(live.Object, "metadata", field)
		if !isPart(w, l) {
			return false
		}
	}
	return true
}

// isEmptySecret reports whether an object is a Secret without any data.
func isEmptySecret(live *unstructured.Unstructured) bool {
	if live.GetKind() != secretKind.Kind {
		return false
	}
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	for _, value := range data {
		if value != "" {
			return false
		}
	}
	return true
}

// restore restores one object. Each of its writes may be the last one before a crash: an object in
// which fieldManager has fields is not complete.
func (r *Restore) restore(ctx context.Context, archived *unstructured.Unstructured) error {
	wanted, status, skip, err := r.mapped.restorable(archived, r.ledgers)
	if err != nil {
		return err
	}
	if skip != "" {
		r.count(func(s *Summary) {
			s.Skipped = append(s.Skipped, fmt.Sprintf("%s %s: %s", archived.GetKind(), client.ObjectKeyFromObject(archived), skip))
		})
		return nil
	}
	live, err := r.live(ctx, archived)
	if err != nil {
		return err
	}
	existed := live != nil
	if live, err = r.create(ctx, wanted, live); err != nil {
		return err
	}
	r.mapped.add(archived, live)
	if archived.GetKind() != namespaceKind.Kind && isIncomplete(live) {
		if err := r.complete(ctx, live, status, archived.GetManagedFields()); err != nil {
			return err
		}
	}
	r.count(func(s *Summary) {
		if existed {
			s.Existing++
			return
		}
		s.Objects++
	})
	return nil
}

// create creates an object that does not exist, and writes a Secret that may be replaced.
func (r *Restore) create(ctx context.Context, wanted, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case live == nil:
		err := r.Client.Create(ctx, wanted, client.FieldOwner(fieldManager), client.FieldValidation(metav1.FieldValidationStrict))
		return wanted, err
	case live.GetKind() == namespaceKind.Kind || isIdentical(wanted, live):
		return live, nil
	case r.isReplaceable(live):
		wanted.SetResourceVersion(live.GetResourceVersion())
		return wanted, r.Client.Update(ctx, wanted, client.FieldOwner(fieldManager))
	}
	return nil, ErrConflict
}

func isIncomplete(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == fieldManager })
}

// complete writes the status of a restored object, and gives its fields to their managers.
func (r *Restore) complete(ctx context.Context, live *unstructured.Unstructured, status map[string]any, managers []metav1.ManagedFieldsEntry) error {
	if status != nil {
		live.Object["status"] = status
		if err := r.Client.Status().Update(ctx, live, client.FieldOwner(fieldManager), client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	if len(managers) == 0 {
		managers = []metav1.ManagedFieldsEntry{{}} // removes all
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": managers, "resourceVersion": live.GetResourceVersion()}})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("managers of fields: %w", err)
	}
	return nil
}

func (r *Restore) count(add func(*Summary)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.summary)
}

// loadContent restores the content, with the UIDs of the restored objects.
func (r *Restore) loadContent(ctx context.Context, open func() (io.ReadCloser, error)) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	from, err := newReader(file)
	if err != nil {
		return err
	}
	if err := r.sameArchive(from.header); err != nil {
		return err
	}
	columns := []int(nil)
	return r.Content.Load(ctx, r.header, func() (store.Record, error) {
		record, err := r.nextRecord(from)
		if err != nil {
			return record, err
		}
		if record.Table != "" {
			columns = uidColumns(record.Columns)
		}
		for _, i := range columns {
			if i < len(record.Row) {
				if uid, ok := record.Row[i].(string); ok {
					record.Row[i] = r.mapped.uid(uid)
				}
			}
		}
		return record, nil
	})
}

// nextRecord returns the next record of the content.
func (r *Restore) nextRecord(from *reader) (store.Record, error) {
	for {
		l, err := from.next()
		if err != nil {
			return store.Record{}, err
		}
		if l.Content != nil {
			if l.Content.Row != nil {
				r.summary.Rows++
			}
			return *l.Content, nil
		}
	}
}

// uidColumns returns the indexes of columns that have UIDs of objects; see store.Owner.
func uidColumns(columns []string) (indexes []int) {
	for i, name := range columns {
		if name == "uid" || strings.HasSuffix(name, "_uid") {
			indexes = append(indexes, i)
		}
	}
	return indexes
}
