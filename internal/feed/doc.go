// Package feed is between an informer and the reflectors that fill its cache. Packages of this
// repository that fill the cache of an informer in another way implement [Feed]: informer/scoped,
// informer/clientgo and contrib/controllerruntime.
package feed
