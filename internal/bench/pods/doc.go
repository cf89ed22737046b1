// Package pods makes pods to measure with. They look as if they had been decoded from a list of a real cluster, as far as a cache can tell: in the order
// of their keys, names of Deployments' pods, UIDs, numeric resource versions, and no string that shares memory with another one. They are smaller than
// real pods: a cache looks at nothing but the metadata and the node, and what it does not look at only makes collecting garbage
// slower.
//
// Those of [Whole] are for whoever decodes pods, and have everything.
//
// The same numbers give the same pods.
package pods
