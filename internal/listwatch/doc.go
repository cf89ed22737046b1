// Package listwatch adapts a cache.ListerWatcher of client-go to a client of the reflector. It is
// below informer/clientgo and contrib/controllerruntime, whose informers are made from
// ListerWatchers.
package listwatch
