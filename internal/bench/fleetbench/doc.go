// Package fleetbench measures a program that wants many kinds which hardly change: the subcommand
// "fleet". It compares package informer/fleet with the dynamic factory of client-go, and with a
// cache of controller-runtime.
//
// The server serves 500 kinds of CustomResourceDefinitions by HTTP/2, with one object each, which does
// not change. Each contender has a process of its own: it wants all kinds, waits until the caches are
// filled, and notes what it costs to wait.
package fleetbench
