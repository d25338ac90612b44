// Package docs has the pages of the documentation that quoin apiserver serves.
package docs

import "embed"

// Guides are the pages about APIs of an account.
//
//go:embed ai.md mcp.md
var Guides embed.FS
