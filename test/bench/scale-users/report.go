package main

import (
	"fmt"
	"io"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/etcd"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// The project's bars.
const (
	barMemory = 3   // KiB a user
	barLookup = 1.5 // times the GET of the object
	barPage   = 20  // ms
)

// figures are those of one number of users.
type figures struct {
	n int
	// empty and full are the memory of `quoin apiserver` without users and with all, live that of its objects in MiB.
	empty, full process.Memory
	live        float64
	started     time.Duration

	kubeAPIServerMemory, etcdMemory, controllerMemory process.Memory
	controllerSteady                                  time.Duration

	byAttribute map[string]measure.Times
	raw, byPage measure.Times

	kinds    []etcd.Kind
	database float64
}

// report has the figures of all numbers of users.
type report struct {
	options
	sizes []*figures
}

func (r *report) setup() string {
	return fmt.Sprintf("Users of one account, without groups; kube-apiserver without its watch cache above %d users, and the controller not running; etcd, kube-apiserver, Quoin and bench share the machine; etcd does not wait for the disk", r.cached)
}

// bytes returns the memory of `quoin apiserver` a user, in KiB.
func (f *figures) bytes() float64 { return (f.full.Resident - f.empty.Resident) * 1024 / float64(f.n) }

// print writes Markdown tables: the figures with bars, and their growth.
func (r *report) print(w io.Writer) {
	if len(r.sizes) == 0 {
		return
	}
	last := r.sizes[len(r.sizes)-1]
	bars := measure.Bars{}
	of := fmt.Sprintf(" with %d users", last.n)
	bars.AtMost("memory of `quoin apiserver` a user"+of, last.bytes(), barMemory, " KiB")
	get := last.raw.Milliseconds(0.99)
	for _, attribute := range []string{"userName", "externalId"} {
		p99 := last.byAttribute[attribute].Milliseconds(0.99)
		bars.AtMost(fmt.Sprintf("%s eq%s, p99 (%.1f ms) ÷ p99 of a raw GET (%.1f ms)", attribute, of, p99, get), p99/get, barLookup, "")
	}
	bars.AtMost(fmt.Sprintf("page of %d%s, p99", pageSize, of), last.byPage.Milliseconds(0.99), barPage, " ms")
	bars.PrintBars(w)
	r.growth().Print(w, "Users")
}

func (r *report) growth() *measure.Growth {
	g := &measure.Growth{}
	for _, f := range r.sizes {
		g.Sizes = append(g.Sizes, f.n)
	}
	values := func(of func(f *figures) float64) []float64 {
		all := make([]float64, len(r.sizes))
		for i, f := range r.sizes {
			all[i] = of(f)
		}
		return all
	}
	g.Total("memory of `quoin apiserver`", " MiB", values(func(f *figures) float64 { return f.full.Resident })...)
	g.Total("memory of `quoin apiserver`, highest", " MiB", values(func(f *figures) float64 { return f.full.Peak })...)
	g.Total("memory of its objects", " MiB", values(func(f *figures) float64 { return f.live })...)
	g.Each("memory of `quoin apiserver` a user", " KiB", values((*figures).bytes)...)
	g.Total("start of `quoin apiserver`", " s", values(func(f *figures) float64 { return f.started.Seconds() })...)
	for _, attribute := range []string{"userName", "externalId"} {
		g.Each(attribute+" eq, p99", " ms", values(func(f *figures) float64 { return f.byAttribute[attribute].Milliseconds(0.99) })...)
	}
	g.Each("raw GET, p99", " ms", values(func(f *figures) float64 { return f.raw.Milliseconds(0.99) })...)
	g.Each(fmt.Sprintf("page of %d, p99", pageSize), " ms", values(func(f *figures) float64 { return f.byPage.Milliseconds(0.99) })...)
	g.Total("memory of kube-apiserver", " MiB", values(func(f *figures) float64 { return f.kubeAPIServerMemory.Resident })...)
	g.Total("memory of etcd", " MiB", values(func(f *figures) float64 { return f.etcdMemory.Resident })...)
	g.Total("database of etcd", " MiB", values(func(f *figures) float64 { return f.database / (1 << 20) })...)
	for _, kind := range []string{users, claimed} {
		g.Each("etcd, bytes of an object of "+kind, "", values(func(f *figures) float64 {
			for _, k := range f.kinds {
				if k.Name == kind {
					return k.Bytes
				}
			}
			return 0
		})...)
	}
	ofController := func(of func(f *figures) float64) []float64 {
		return values(func(f *figures) float64 {
			if f.controllerSteady == 0 {
				return measure.NotMeasured
			}
			return of(f)
		})
	}
	g.Total("memory of the controller", " MiB", ofController(func(f *figures) float64 { return f.controllerMemory.Resident })...)
	g.Total("restart of the controller, all users reconciled", " s", ofController(func(f *figures) float64 { return f.controllerSteady.Seconds() })...)
	return g
}
