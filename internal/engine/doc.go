// Package engine knows the data-plane server: that it is Cube, which ports it opens, which
// environment variables and probes it has, where it looks for the data model and what its
// pre-aggregation store needs. Nothing else in Quoin knows any of it.
//
// It turns an Environment into Kubernetes objects and addresses. The data takes one way:
//
//	InputsFor: Deployment + Environment + model files -> Inputs, or the field that is wrong
//	Render:    Inputs -> objects, in the order in which they are applied
//
// Everything here is pure: no client, no network, no clock. Randomness is an argument of the
// one function that makes secrets.
//
// Facts of the server are those of release 1.6.60 and, where they differ, of 1.7. Decisions
// are in docs/decisions/0004-workload-rendering.md.
package engine

// Ports of the server. Source: packages/cubejs-backend-shared/src/env.ts (PORT,
// CUBEJS_PG_SQL_PORT).
const (
	// PortHTTP serves the REST, GraphQL and metadata APIs.
	PortHTTP = 4000
	// PortSQL speaks the PostgreSQL protocol.
	PortSQL = 15432
	// BasePath is where the server serves its API. No environment variable moves it, so
	// the gateway maps the deployment's spec.dataAPI.basePath to it.
	BasePath = "/cubejs-api"
)

// Ports of the pre-aggregation store. Source: rust/cubestore/cubestore/src/config/mod.rs.
const (
	portStoreHTTP   = 3030
	portStoreStatus = 3031
	portStoreMeta   = 9999
	portStoreWorker = 9001
)

// Revision of the renderer. It is bumped when equal inputs give other objects than before;
// the golden files in testdata record which revision wrote them. A workload that was
// rendered by another revision keeps its pod template until its inputs change, so a new
// release of Quoin restarts nothing.
const Revision = "2"
