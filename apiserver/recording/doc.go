// Package recording puts what the front end changes for somebody into the account's audit log,
// and what has been changed past it.
//
//	front ─▶ Request (who, from where) ─▶ rest, scim ─▶ Client ─▶ Kubernetes
//	  ▲                                                   │ event: attempted, then its outcome
//	  └──────────── gate: no success without ─────────────┘
//
// Client stands before every write of the front end, so a new route cannot forget to record. An
// event is stored before its change is made, and its outcome before the answer says that it was
// made (docs/decisions/0028).
//
//	request.go    whose request it is, and what it has changed so far
//	client.go     writes with their events
//	subjects.go   the kinds that are recorded, and what their events are called
//	documents.go  an object before and after, and how they differ
//	gate.go       holds a success back whose outcome is not stored
//	admission.go  what kubectl and GitOps change, as the Kubernetes API server tells it
//	versions.go   what the controllers roll
package recording
