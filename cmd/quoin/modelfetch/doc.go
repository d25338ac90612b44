// Package modelfetch is the command `quoin model-fetch`: the init container
// that checks a data model out from Git, as a project with a configuration file,
// before the data-plane server starts.
//
// It is idempotent and safe to kill: the target holds a complete commit or does
// not exist, and a target that holds the wanted commit is not changed. The
// target must be a folder inside the mounted volume, not the mount itself,
// because it is replaced by a rename; mount it into the server by its sub path.
package modelfetch
