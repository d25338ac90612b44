// Package gateway is a reverse proxy for the data APIs of all deployments. It routes by
// deployments and environments and checks tokens; it does not serve REST or SCIM. It is stateless:
// any number of replicas can run.
//
// A request passes through the packages in one direction:
//
//	serving ──▶ handler ─────────────────────────▶ proxy ──▶ upstream ──▶ pod
//	listener,     route: host, path → environment    headers    picks a pod or waits for one,
//	limits, log   token: authorization                          retries
//	              limits: rate and concurrency
//
//	postgres ──▶ route ──▶ upstream, for the SQL interface
//
// Paths, headers and bodies are forwarded unchanged unless stated otherwise. The gateway's own
// errors are {"error": "..."}.
package gateway
