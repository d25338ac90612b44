package kube

import (
	"context"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// Pages lists objects page by page, each in a copy of empty, and ends after an error. live reads the Kubernetes API server: a
// cache does not support pagination.
func Pages[L client.ObjectList](ctx context.Context, live client.Reader, empty L, options ...client.ListOption) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		for next := ""; ; {
			page, _ := empty.DeepCopyObject().(L) // a copy has the same type
			err := live.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(next))...)
			if next = page.GetContinue(); !yield(page, err) || err != nil || next == "" {
				return
			}
		}
	}
}
