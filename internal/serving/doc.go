// Package serving is the HTTPS server of `quoin apiserver` and `quoin gateway`: listeners, serving
// certificates, and the middleware of every request. It is independent of routes and tenants.
//
//	listener ─▶ Wrap ─▶ CanonicalPath ─▶ authentication, routes
//	  Run        │
//	             └ panics, request id, headers, client address, access log, metrics, limits
//
// Errors are the JSON object {"error": "..."}, here and, through WriteError, in all handlers.
package serving
