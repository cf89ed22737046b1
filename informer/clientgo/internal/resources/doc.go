// Package resources has the factory of informers by resource, which packages dynamicinformer and
// metadatainformer share.
package resources
