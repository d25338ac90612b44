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

// fault is what goes wrong at a call.
type fault string

const (
	// failing: the API server answers 500 and nothing is done; the controller goes on.
	failing fault = "call fails"
	// lost: the call is carried out, and its answer is lost.
	lost fault = "answer is lost"
	// killedBefore: the process dies before the call.
	killedBefore fault = "killed before"
	// killedAfter: the process dies after the call, before it sees the answer.
	killedAfter fault = "killed after"
)

var errKilled = errors.New("killed")

// faults lets one call of a controller go wrong.
type faults struct {
	mu     sync.Mutex
	calls  int
	writes int
	at     int // the number of the call that goes wrong; 0 for none
	what   fault
	where  string // what the call was
	// who makes the calls: the act and the controller.
	who string
	// sites are the calls by what they are, each with the number of its first occurrence.
	sites map[string]int
	log   []string
	dead  bool
	// before each write, somebody else may write.
	rival func(ctx context.Context, obj client.Object)
}

// call runs a call, or lets it go wrong.
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
	site := fmt.Sprintf("%s: %s %T", f.who, op, obj)
	if _, seen := f.sites[site]; !seen {
		f.sites[site] = f.calls
	}
	if write {
		f.writes++
		f.log = append(f.log, fmt.Sprintf("%s %T", op, obj))
	}
	hit := f.calls == f.at
	if hit {
		f.where = site
		f.dead = f.what == killedBefore || f.what == killedAfter
	}
	f.mu.Unlock()
	if !hit {
		return do()
	}
	failure := apierrors.NewInternalError(errors.New("injected"))
	switch f.what {
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

// wrap puts the faults between a controller and its API server.
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
			f.disturb(ctx, obj)
			return f.call("update", obj, true, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			f.disturb(ctx, obj)
			return f.call("patch", obj, true, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return f.call(fmt.Sprintf("apply %s", kindOf(obj)), obj, true, func() error { return c.Apply(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			f.disturb(ctx, obj)
			return f.call("patch "+sub, obj, true, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

func (f *faults) disturb(ctx context.Context, obj client.Object) {
	if f.rival != nil {
		f.rival(ctx, obj)
	}
}

// written is how many writes were tried.
func (f *faults) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// kindOf is the kind of an apply configuration, which its Go type does not tell.
func kindOf(obj runtime.ApplyConfiguration) string {
	if named, ok := obj.(interface{ GetKind() *string }); ok && named.GetKind() != nil {
		return *named.GetKind()
	}
	if u, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		return u.GetObjectKind().GroupVersionKind().Kind
	}
	return ""
}
