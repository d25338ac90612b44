package deployment

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// scenarios are the steps of golden transcripts.
var scenarios = map[string][]func(*world){
	"install-and-upgrade": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target = "1.2.4" },
	},
	"version-waits-for-the-maintenance-window": {
		func(w *world) { w.target, w.window = "1.2.3", true }, // a first install does not wait
		func(w *world) { w.target = "1.2.4" },
		func(w *world) { w.deployment.Generation++; w.deployment.Spec.Replicas = ptr.To(int32(3)) },
		func(w *world) { w.commit = "c2" },
		func(w *world) { w.target = "1.2.5" },
		func(w *world) { w.pass(untilWindow) },
		func(w *world) { w.pass(2 * time.Hour); w.target = "1.2.6" },
		func(w *world) { w.byHand = true },
	},
	"rollout-continues-after-the-maintenance-window": {
		func(w *world) { w.target, w.window = "1.2.3", true },
		func(w *world) { w.pass(untilWindow + time.Hour - time.Second); w.target, w.slow = "1.2.4", true },
		func(w *world) { w.pass(30 * time.Second) },
		func(w *world) { w.target = "1.2.5" },
		func(w *world) { w.slow = false },
	},
	"broken-version-goes-back-outside-of-the-maintenance-window": {
		func(w *world) { w.target, w.window = "1.2.3", true },
		func(w *world) {
			w.pass(untilWindow + time.Hour - time.Second)
			w.target, w.broken["1.2.4"] = "1.2.4", true
		},
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.target = "1.2.5" },
	},
	"broken-version-goes-back-and-stays": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.pass(time.Hour) },
	},
	"controller-starts-after-the-deadline-of-a-rollout": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.slow = "1.2.4", true },
		func(w *world) { w.pass(time.Hour); w.since = w.now },
		func(w *world) { w.pass(59 * time.Second); w.slow = false },
	},
	"controller-starts-after-the-deadline-of-a-broken-version": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(time.Hour); w.since = w.now },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.pass(time.Hour); w.since = w.now },
	},
	"controller-starts-after-a-failed-first-install": {
		func(w *world) { w.target, w.broken["1.2.3"] = "1.2.3", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.pass(time.Hour); w.since = w.now },
	},
	"broken-version-is-tried-again-after-a-change-of-the-variables": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) {
			w.broken["1.2.4"] = false
			w.deployment.Generation++
			w.deployment.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_DB_HOST", Value: ptr.To("db")}}
		},
	},
	"broken-version-stays-when-scaled": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.deployment.Generation++; w.deployment.Spec.Replicas = ptr.To(int32(3)) },
		func(w *world) { w.deployment.Generation++; w.deployment.Spec.DisplayName = "Sales" },
	},
	"broken-version-is-tried-again-when-it-is-pinned": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.broken["1.2.4"] = false; w.newPin = true },
	},
	"broken-version-is-left-behind-by-the-next-one": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.target = "1.2.5" },
	},
	"broken-first-version-has-nothing-to-go-back-to": {
		func(w *world) { w.target, w.broken["1.2.3"] = "1.2.3", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.broken["1.2.3"] = false },
	},
	"broken-first-version-falls-back-to-the-proven-one": {
		func(w *world) { w.target, w.fallback, w.broken["1.2.4"] = "1.2.4", "1.2.3", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.target = "1.2.5" },
	},
	"broken-first-version-falls-back-when-another-is-proven-later": {
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.fallback = "1.2.3" },
	},
	"proven-version-that-is-broken-too": {
		func(w *world) {
			w.target, w.fallback, w.broken["1.2.4"], w.broken["1.2.3"] = "1.2.4", "1.2.3", true, true
		},
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.pass(time.Hour) },
		func(w *world) { w.broken["1.2.3"] = false },
	},
	"stopped-version-is-left": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.pass(61 * time.Second) },
		func(w *world) { w.target, w.skipped = "1.2.3", "1.2.4" },
		func(w *world) { w.target, w.skipped, w.broken["1.2.4"] = "1.2.4", "", false },
	},
	"broken-version-met-while-asleep-goes-back-when-scaled-up": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.asleep = true; w.deployment.Generation++ },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.asleep = false; w.deployment.Generation++ },
		func(w *world) { w.pass(61 * time.Second) },
	},
	"broken-commit-goes-back-and-stays": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.commit, w.uncompiled["c2"] = "c2", true },
		func(w *world) { w.pass(time.Hour) },
	},
	"broken-commit-is-left-behind-by-the-next-one": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.commit, w.uncompiled["c2"] = "c2", true },
		func(w *world) { w.commit = "c3" },
	},
	"broken-commit-is-taken-back-by-its-author": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.commit, w.uncompiled["c2"] = "c2", true },
		func(w *world) { w.commit = "c1" },
	},
	"broken-commit-is-tried-again-on-request": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.commit, w.uncompiled["c2"] = "c2", true },
		func(w *world) { w.uncompiled["c2"] = false; w.deployment.Generation++ },
		func(w *world) { w.deployment.Annotations = map[string]string{v1alpha1.AnnotationRetry: "1"} },
	},
	"commit-that-needs-the-next-version-is-tried-with-it": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.commit, w.uncompiled["1.2.3 c2"] = "c2", true },
		func(w *world) { w.target = "1.2.4" },
	},
	"version-that-cannot-compile-the-model-goes-back-at-once": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.target, w.uncompiled["1.2.4 c1"] = "1.2.4", true },
		func(w *world) { w.commit = "c2" },
	},
	"version-and-commit-that-are-both-broken": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) {
			w.target, w.commit = "1.2.4", "c2"
			w.uncompiled["1.2.4 c1"], w.uncompiled["c2"] = true, true
		},
		func(w *world) { w.pass(time.Hour) },
	},
	"first-commit-that-is-broken-has-nothing-to-go-back-to": {
		func(w *world) { w.target, w.commit, w.uncompiled["c1"] = "1.2.3", "c1", true },
		func(w *world) { w.pass(time.Hour) },
		func(w *world) { w.commit = "c2" },
	},
	"slow-compilation-has-a-time-of-its-own": {
		func(w *world) { w.target, w.commit = "1.2.3", "c1" },
		func(w *world) { w.target, w.compiling = "1.2.4", true },
		func(w *world) { w.pass(14 * time.Minute) },
		func(w *world) { w.compiling = false },
	},
	"rollout-waits-for-its-turn": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.slots = "1.2.4", 0 },
		func(w *world) { w.pass(time.Hour) },
		func(w *world) { w.slots = 1 },
	},
	"rollout-by-hand-does-not-queue": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.slots, w.manual = "1.2.2", 0, true },
	},
	"target-changes-in-the-middle": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.target = "1.2.5"; w.pass(59 * time.Second) },
	},
	"switch-is-taken-back-in-the-middle": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.broken["1.2.4"] = "1.2.4", true },
		func(w *world) { w.target = "1.2.3" },
	},
	"clock-stands-while-the-environment-waits-for-a-person": {
		func(w *world) { w.target = "1.2.3" },
		func(w *world) { w.target, w.blocked = "1.2.4", true; w.deployment.Generation++ },
		func(w *world) { w.pass(time.Hour) },
		func(w *world) { w.blocked = false },
	},
}
