// Package recording records the changes of objects in the audit log of their account: those that
// Quoin's API server makes for a caller, those made through the Kubernetes API, and rollouts.
//
//	request ─▶ Request (principal, source) ─▶ rest, scim ─▶ Client ─▶ Kubernetes
//	  ▲                                                      │ event: attempted, then its outcome
//	  └──────────── gate: no success without ────────────────┘
//
// Client wraps every write of the API server, so that a new route cannot omit its event. An event is
// stored before its change is made, and its outcome before the response reports success
// (docs/decisions/0028).
//
//	request.go    the request and its changes
//	client.go     writes with their events
//	kinds.go      the recorded kinds, from v1alpha1.Kinds
//	documents.go  an object before and after a change, and the difference
//	gate.go       delays a success until its outcome is stored
//	admission.go  changes through the Kubernetes API, from a validating webhook
//	versions.go   rollouts of the controllers
package recording
