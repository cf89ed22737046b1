// Package feed is between an informer and the reflectors that fill its cache. An informer of one
// client has one reflector, and an informer of package scoped has [Reflectors], one for each
// partition of the cache. Packages of this repository that fill the cache in another way pass a
// [Group] to informer.NewFed: informer/clientgo and contrib/controllerruntime.
package feed
