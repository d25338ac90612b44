package engine_test

// hashes of the fixtures: of an environment, and of each of its components.
var hashes = map[string]string{
	"bucket":                   "0c0900847f780cd7",
	"bucket api":               "890c22ca17a823a1",
	"bucket refresh-worker":    "90c72f95f6b2d3d2",
	"bucket store-router":      "02e3108a0dbc15c1",
	"dedicated":                "a3b78099b9d0ec92",
	"dedicated api":            "890c22ca17a823a1",
	"dedicated refresh-worker": "90c72f95f6b2d3d2",
	"dedicated store-router":   "2d63adebab52f09a",
	"dedicated store-worker":   "5bc4009151ad50d3",
	"git":                      "54df7221faeee36c",
	"git api":                  "4aabd004782dbc06",
	"overrides":                "a603d5f992081ffe",
	"overrides api":            "0dca7c6eed515c9e",
	"shared":                   "b5dc50b7facbe9b9",
	"shared api":               "d7a49c03c3fa4e41",
	"staging":                  "7b61b4f02ecfaf09",
	"staging api":              "25936a6a1ca2c8ae",
}
