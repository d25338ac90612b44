// Package serving is the front door of `quoin apiserver` and `quoin gateway`: the listeners, the
// certificate they show, and what wraps every request. It knows nothing of routes or tenants.
//
//	listener ─▶ Wrap ─▶ CanonicalPath ─▶ authentication, routes
//	  Run        │
//	             └ panics, request id, headers, client address, access log, metrics, limits
//
// An error is answered as the JSON object {"error": "..."}, here and, through WriteError,
// everywhere else.
package serving
