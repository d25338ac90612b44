package api_test

import "strings"

const contentName = "must not contain control characters"

var _ = declare(table{
	kind:       "Workbook",
	objectName: "sales",
	headings:   "Name Slug Deployment Published Ready Reason [ID] [Message] Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics"},
	whole: []string{`
deploymentRef: {name: analytics}
slug: sales
name: Sales
folderRef: {name: finance}
publish: true
allowEmbed: true
adopt: true
prune: true
deletionPolicy: Retain
definition:
  meta: {theme: {dark: true}}
  dashboardDraft:
    title: Sales
    widgets: [{id: w1, type: TEXT, position: {x: 0, "y": 0, w: 1, h: 1}}]
  reports:
  - publicId: SalesByState
    name: Orders
    title: Orders by status
    sqlQuery: SELECT 1
    jsonQuery: '{}'
    pivotItems:
      rows: [a]
      columns: [c]
      measures: [b]
      filters: [f]
      measuresAxis: rows
      measuresPosition: after
      displayScale: thousands
      showRowTotals: true
      showColumnTotals: false
      showAppliedFilters: true
    meta: {kind: table, spec: {mark: bar}}
`, `{deploymentRef: {name: analytics}, slug: sales, publish: true, fromPath: dashboards/sales.yaml}`},
	spec: `{deploymentRef: {name: analytics}, slug: sales, definition: {}}`,
	cases: []validationCase{
		{name: "the required fields"},
		{name: "slug: one letter", with: `{slug: a}`},
		{name: "slug: upper case", with: `{slug: Sales}`, field: "spec.slug", message: "should match"},
		{name: "slug: a dash at the end", with: `{slug: sales-}`, field: "spec.slug", message: "should match"},
		{name: "slug: too long", with: `{slug: ` + strings.Repeat("a", 129) + `}`, field: "spec.slug", message: "may not be more than 128"},
		{name: "slug: is immutable", then: `{slug: other}`, field: "spec.slug", message: "slug is immutable"},
		{name: "deploymentRef: is immutable", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable"},
		{name: "name: a control character", with: `{name: "a\u0007"}`, field: "spec.name", message: contentName},
		{name: "name: a space at the end", with: `{name: "a "}`, field: "spec.name", message: contentName},
		{name: "name: may change", with: `{name: a}`, then: `{name: b}`},
		{name: "folderRef: may be removed", with: `{folderRef: {name: a}}`, then: `{folderRef: null}`},
		{name: "publish: without a dashboard", with: `{publish: true}`, field: "spec.publish", message: "publish requires definition.dashboardDraft"},
		{name: "publish: with a dashboard", with: `{publish: true, definition: {dashboardDraft: {}}}`},
		{name: "fromPath: beside a definition", with: `{fromPath: a.yaml}`, field: "spec", message: "must set exactly one of definition and fromPath"},
		{name: "fromPath: neither", with: `{definition: null}`, field: "spec", message: "must set exactly one of definition and fromPath"},
		{name: "fromPath: absolute", with: `{definition: null, fromPath: /a}`, field: "spec.fromPath", message: "must be a relative path"},
		{name: "fromPath: above", with: `{definition: null, fromPath: a/../../b}`, field: "spec.fromPath", message: "must be a relative path"},
		{name: "fromPath: in place of a definition", with: `{definition: null, publish: true, fromPath: a/b.yaml}`},
		{name: "deletionPolicy: unknown", with: `{deletionPolicy: Orphan}`, field: "spec.deletionPolicy", message: `supported values: "Delete", "Retain"`},
		{name: "definition: a draft that is text", with: `{definition: {dashboardDraft: a}}`, field: "spec.definition.dashboardDraft", message: "must be of type object"},
		{name: "definition: a meta that is a list", with: `{definition: {meta: []}}`, field: "spec.definition.meta", message: "must be of type object"},
		{name: "reports: a public id with a dash", with: `{definition: {reports: [{publicId: Sales-ByStat, name: a}]}}`, field: "spec.definition.reports[0].publicId", message: "should match"},
		{name: "reports: a short public id", with: `{definition: {reports: [{publicId: a, name: a}]}}`, field: "spec.definition.reports[0].publicId", message: "should be at least 12"},
		{name: "reports: twice", with: `{definition: {reports: [{publicId: SalesByState, name: a}, {publicId: SalesByState, name: b}]}}`, field: "spec.definition.reports[1]", message: "Duplicate value"},
		{name: "reports: no name", with: `{definition: {reports: [{publicId: SalesByState, name: ""}]}}`, field: "spec.definition.reports[0].name", message: "should be at least 1"},
		{name: "reports: a tab in a name", with: `{definition: {reports: [{publicId: SalesByState, name: "a\tb"}]}}`, field: "spec.definition.reports[0].name", message: contentName},
		{name: "a name with a dot", metadataName: "a.b", field: "<nil>", message: "metadata.name must have no more than 63 characters"},
	},
})

var _ = declare(table{
	kind:       "Folder",
	objectName: "finance",
	headings:   "Name Folder Deployment Parent Ready Reason [ID] [Message] Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics"},
	whole: []string{
		`{deploymentRef: {name: analytics}, name: Finance, parentRef: {name: all}, position: 3, adopt: true, deletionPolicy: Delete}`,
	},
	spec: `{deploymentRef: {name: analytics}, name: Finance}`,
	cases: []validationCase{
		{name: "the required fields"},
		{name: "name: may change", then: `{name: Money}`},
		{name: "name: empty", with: `{name: ""}`, field: "spec.name", message: "should be at least 1"},
		{name: "name: too long", with: `{name: ` + strings.Repeat("a", 256) + `}`, field: "spec.name", message: "may not be more than 255"},
		{name: "name: a line break", with: `{name: "a\nb"}`, field: "spec.name", message: contentName},
		{name: "deploymentRef: is immutable", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable"},
		{name: "position: negative", with: `{position: -1}`, field: "spec.position", message: "greater than or equal to 0"},
		{name: "position: 0", with: `{position: 0}`},
		{name: "parentRef: itself", with: `{parentRef: {name: finance}}`, field: "<nil>", message: "spec.parentRef must name another Folder"},
		{name: "a name with a dot", metadataName: "a.b", field: "<nil>", message: "metadata.name must have no more than 63 characters"},
	},
})
