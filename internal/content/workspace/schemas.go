package workspace

// Schemas are the JSON Schemas of the opaque parts, by name and version: the draft and the config of a dashboard, and the meta of a
// report. Their ids are URNs.
var Schemas = map[string][]byte{"dashboard-v1": dashboardSchema, "report-v1": reportSchema}
