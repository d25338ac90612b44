// Package modelfetch is the command `quoin model-fetch`: the init container
// that puts a data model from Git into a folder before the data-plane server
// starts.
//
// It may run any number of times, killed anywhere: the target holds a whole
// commit or is not there, and a target that holds the wanted commit is left
// alone. The target must be a folder inside the mounted volume, not the mount
// itself, because it is replaced by a rename; mount it into the server by its
// sub path.
package modelfetch
