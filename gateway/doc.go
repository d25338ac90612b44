// Package gateway is the front door of the data API: what the users of the platform call. It
// knows deployments, environments and tokens, and nothing of REST or SCIM. It keeps nothing:
// any number of replicas serve side by side.
//
// A request goes through the rooms in one direction:
//
//	serving ──▶ front ───────────────────────────▶ proxy ──▶ upstream ──▶ a pod
//	listener,     route: host, path → environment    headers    picks a pod, waits for one,
//	limits, log   token: what may be asked for                  sends again what none has got
//	              limits: how much
//
//	postgres ──▶ route ──▶ upstream, for the SQL interface
//
// What it does not understand passes as it is. An error of its own is {"error": "..."}.
package gateway
