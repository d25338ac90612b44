package etcd

import (
	"context"
	"slices"
	"strings"
)

// Kind is what the objects of a kind take in etcd.
type Kind struct {
	// Name is the path of the kind below Prefix, such as secrets or platform.quoin.dev/deployments.
	Name string
	// Count is the number of objects, Bytes the mean size of their values and keys.
	Count int
	Bytes float64
}

// Kinds returns the kinds of which there are objects, the largest first. It reads samples of the values.
func (s Server) Kinds(ctx context.Context, names ...string) ([]Kind, error) {
	const sample = 200
	var all []Kind
	for _, name := range names {
		pairs, count, err := s.Range(ctx, Prefix+name+"/", sample)
		if err != nil {
			return nil, err
		}
		if count == 0 {
			continue
		}
		size := 0
		for _, p := range pairs {
			size += len(p.Key) + len(p.Value)
		}
		all = append(all, Kind{name, count, float64(size) / float64(len(pairs))})
	}
	slices.SortFunc(all, func(a, b Kind) int {
		if d := float64(b.Count)*b.Bytes - float64(a.Count)*a.Bytes; d != 0 {
			return int(d)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}
