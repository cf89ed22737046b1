// Package feed is between an informer and the reflectors that fill its cache. An informer of one
// client has one reflector, or one for each selector. Packages of this repository that fill the
// cache in another way pass a [Group] to informer.NewFed: informer/scoped, informer/clientgo and
// contrib/controllerruntime.
package feed
