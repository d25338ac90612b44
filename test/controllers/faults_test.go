package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fault is a kind of failure of a call.
type fault string

const (
	// failing: the API server returns 500 without executing the call; the controller continues.
	failing fault = "call fails"
	// lost: the call is executed, but the controller gets an error.
	lost fault = "response is lost"
	// killedBefore: the process is killed before the call.
	killedBefore fault = "killed before"
	// killedAfter: the process is killed after the call, before it gets the response.
	killedAfter fault = "killed after"
)

var errKilled = errors.New("killed")

// faults records the calls of the controllers and injects a fault into one of them.
type faults struct {
	mu     sync.Mutex
	calls  int
	writes int
	// conflicts is the number of calls that the API server has rejected with a conflict.
	conflicts int
	at        int // the number of the call that fails; 0 for none
	kind      fault
	where     string // the site of the failed call
	// controller is the kind whose controller makes the calls.
	controller string
	// sites are the distinct calls, each with the number of its first occurrence; made are the
	// sites of all calls in order.
	sites map[string]int
	made  []string
	log   []string
	dead  bool
	// beforeWrite, if not nil, is called before each update and patch.
	beforeWrite func(ctx context.Context, obj client.Object)
}

// call makes a call, or injects the fault.
func (f *faults) call(op string, obj any, write bool, do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errKilled
	}
	f.calls++
	if f.sites == nil {
		f.sites = map[string]int{}
	}
	site := fmt.Sprintf("%s: %s %T", f.controller, op, obj)
	if _, exists := f.sites[site]; !exists {
		f.sites[site] = f.calls
	}
	f.made = append(f.made, site)
	if write {
		f.writes++
		f.log = append(f.log, fmt.Sprintf("%s %T", op, obj))
	}
	hit := f.calls == f.at
	if hit {
		f.where = site
		f.dead = f.kind == killedBefore || f.kind == killedAfter
	}
	f.mu.Unlock()
	if !hit {
		err := do()
		if apierrors.IsConflict(err) {
			f.mu.Lock()
			f.conflicts++
			f.mu.Unlock()
		}
		return err
	}
	failure := apierrors.NewInternalError(errors.New("injected"))
	switch f.kind {
	case failing:
		return failure
	case lost:
		_ = do()
		return failure
	case killedAfter:
		_ = do()
	case killedBefore:
	}
	return errKilled
}

// wrap returns a client with the faults between the controllers and the API server.
func (f *faults) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return f.call("get", obj, false, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return f.call("list", list, false, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return f.call("create", obj, true, func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return f.call("delete", obj, true, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			f.notify(ctx, obj)
			return f.call("update", obj, true, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			f.notify(ctx, obj)
			return f.call("patch", obj, true, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return f.call(fmt.Sprintf("apply %s", kindOf(obj)), obj, true, func() error { return c.Apply(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			f.notify(ctx, obj)
			return f.call("patch "+sub, obj, true, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

// setController sets the controller that makes the next calls.
func (f *faults) setController(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.controller = kind
}

func (f *faults) notify(ctx context.Context, obj client.Object) {
	if f.beforeWrite != nil {
		f.beforeWrite(ctx, obj)
	}
}

// written returns the number of attempted writes.
func (f *faults) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// kindOf returns the kind of an apply configuration, which its Go type does not show.
func kindOf(obj runtime.ApplyConfiguration) string {
	if named, ok := obj.(interface{ GetKind() *string }); ok && named.GetKind() != nil {
		return *named.GetKind()
	}
	if u, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		return u.GetObjectKind().GroupVersionKind().Kind
	}
	return ""
}
