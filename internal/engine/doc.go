// Package engine contains everything that is specific to the data-plane server, Cube: its ports,
// environment variables and probes, the location of the data model, and its pre-aggregation store.
// No other package of Quoin depends on these.
//
// It renders the Kubernetes objects and the addresses of an Environment. Data flows one way:
//
//	InputsFor: Deployment + Environment + model files -> Inputs, or the invalid field
//	Render:    Inputs -> objects, in the order in which they are applied
//
// The package is pure: no client, no network, no clock. The source of randomness is an argument of
// NewCredentials.
//
// It describes release 1.6.60 of the server and, where they differ, 1.7. The decisions are in
// docs/decisions/0004-workload-rendering.md.
package engine

// Ports of the server. Source: packages/cubejs-backend-shared/src/env.ts (PORT,
// CUBEJS_PG_SQL_PORT).
const (
	// PortHTTP serves the REST, GraphQL and metadata APIs.
	PortHTTP = 4000
	// PortSQL serves the PostgreSQL protocol.
	PortSQL = 15432
	// BasePath is the base path of the server's API. It cannot be configured, so the gateway maps
	// the deployment's spec.dataAPI.basePath to it.
	BasePath = "/cubejs-api"
)

// Ports of the pre-aggregation store. Source: rust/cubestore/cubestore/src/config/mod.rs.
const (
	portStoreHTTP   = 3030
	portStoreStatus = 3031
	portStoreMeta   = 9999
	portStoreWorker = 9001
)

// Revision of the renderer. It must be incremented when equal inputs render different objects; the
// golden files in testdata record their revision. A workload of another revision keeps its pod
// template until its inputs change, so that a new release of Quoin restarts no pods.
const Revision = "4"
