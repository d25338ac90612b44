// Package metrics exports the state of Quoin's objects: how many are ready, which ones are not and
// since when, and how many deployments run the newest version of their channel.
//
// The state is kept up to date by the events of the cache, so a scrape costs as much as it returns: it
// does not depend on the number of objects, of which there may be a million.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// maxNotReady is the maximum number of objects with a series of their own: when a registry or a Git
// server fails, all deployments may be affected.
const maxNotReady = 1000

// reasonNotReconciled is the reason of objects without conditions.
const reasonNotReconciled = "NotReconciled"

// counted are the kinds whose objects have no series of their own: there may be too many of them, their
// names may be those of people, and keys that are revoked or have expired and syncs that have failed or were
// cancelled stay as they are.
var counted = []string{"ApiKey", "DbtSync", "ScimGroup", "ScimUser"}

var (
	objectsDesc = prometheus.NewDesc("quoin_objects",
		"Objects by kind, status of the condition Ready and its reason.", []string{"kind", "ready", "reason"}, nil)
	notReadyDesc = prometheus.NewDesc("quoin_object_not_ready_since_timestamp_seconds",
		"When the condition Ready of an object that is not ready last changed its status.", []string{"kind", "namespace", "name", "ready", "reason"}, nil)
	omittedDesc = prometheus.NewDesc("quoin_objects_not_ready_omitted",
		"Objects that are not ready and have no series of their own, because there are more than 1,000.", []string{}, nil)
)

// Objects collects the metrics of objects.
type Objects struct {
	mu       sync.Mutex
	counts   map[state]int
	notReady map[key]problem
	fleet    fleet
}

// state is what objects are counted by.
type state struct {
	kind   string
	ready  metav1.ConditionStatus
	reason string
}

type key struct{ kind, namespace, name string }

// problem is the state of an object that is not ready.
type problem struct {
	state
	since time.Time
}

var _ prometheus.Collector = &Objects{}

// NewObjects returns the metrics of the objects in a cache, and keeps them up to date.
func NewObjects(ctx context.Context, objects cache.Cache) (*Objects, error) {
	o := newObjects()
	for _, kind := range v1alpha1.Kinds {
		if kind.Cached.Controller == v1alpha1.NotCached || !kind.HasConditions() {
			continue
		}
		source, ok := kind.Object.DeepCopyObject().(client.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", kind.Name())
		}
		informer, err := objects.GetInformer(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.Plural, err)
		}
		if _, err := informer.AddEventHandler(o.handler(kind.Name())); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind.Plural, err)
		}
	}
	return o, nil
}

func newObjects() *Objects {
	return &Objects{counts: map[state]int{}, notReady: map[key]problem{}, fleet: newFleet()}
}

// handler counts the objects of a kind. An informer delivers each version of an object with the one that
// it delivered before, so the differences add up.
func (o *Objects) handler(kind string) toolscache.ResourceEventHandler {
	change := func(before, after any) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.remove(kind, objectOf(before))
		o.add(kind, objectOf(after))
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { change(nil, obj) },
		UpdateFunc: change,
		DeleteFunc: func(obj any) { change(obj, nil) },
	}
}

// objectOf returns the object of an event; nil if there is none.
func objectOf(event any) v1alpha1.Object {
	if unknown, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
		event = unknown.Obj
	}
	obj, _ := event.(v1alpha1.Object)
	return obj
}

func (o *Objects) add(kind string, obj v1alpha1.Object) {
	if obj == nil {
		return
	}
	p := readiness(kind, obj)
	o.counts[p.state]++
	if p.ready != metav1.ConditionTrue && !slices.Contains(counted, kind) {
		o.notReady[keyOf(kind, obj)] = p
	}
	o.fleet.add(obj)
}

func (o *Objects) remove(kind string, obj v1alpha1.Object) {
	if obj == nil {
		return
	}
	before := readiness(kind, obj).state
	if o.counts[before]--; o.counts[before] == 0 {
		delete(o.counts, before)
	}
	delete(o.notReady, keyOf(kind, obj))
	o.fleet.remove(obj)
}

func keyOf(kind string, obj v1alpha1.Object) key {
	return key{kind, obj.GetNamespace(), obj.GetName()}
}

// readiness returns the state of an object, and since when it has the status.
func readiness(kind string, obj v1alpha1.Object) problem {
	ready := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return problem{state{kind, metav1.ConditionUnknown, reasonNotReconciled}, obj.GetCreationTimestamp().Time}
	}
	return problem{state{kind, ready.Status, ready.Reason}, ready.LastTransitionTime.Time}
}

// Describe implements prometheus.Collector.
func (o *Objects) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{objectsDesc, notReadyDesc, omittedDesc, runningDesc, lagDesc} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (o *Objects) Collect(metrics chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s, n := range o.counts {
		metrics <- gauge(objectsDesc, float64(n), s.kind, string(s.ready), s.reason)
	}
	shown := o.longestNotReady()
	for _, k := range shown {
		p := o.notReady[k]
		metrics <- gauge(notReadyDesc, seconds(p.since), k.kind, k.namespace, k.name, string(p.ready), p.reason)
	}
	metrics <- gauge(omittedDesc, float64(len(o.notReady)-len(shown)))
	o.fleet.collect(metrics)
}

// longestNotReady returns the objects that have not been ready for the longest time, maxNotReady at most.
// Those that become ready make room for later ones, and no other series come and go.
func (o *Objects) longestNotReady() []key {
	keys := make([]key, 0, len(o.notReady))
	for k := range o.notReady {
		keys = append(keys, k)
	}
	if len(keys) <= maxNotReady {
		return keys
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(o.notReady[a].since.Compare(o.notReady[b].since), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return keys[:maxNotReady]
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func seconds(t time.Time) float64 { return float64(t.Unix()) }
