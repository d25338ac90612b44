// Package query runs queries of people through the gateway of the data API: semantic SQL by /v1/cubesql and
// JSON queries by /v1/load, as docs/decisions/0084-queries-of-people.md describes. What a person may see is
// decided by the token of the request alone; nothing in this package filters rows.
//
// A result is held in memory, within Limits. Equal queries with equal tokens run once at a time.
package query
