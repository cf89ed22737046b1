// Package fleetbench measures a program that wants many kinds which hardly change: the subcommand
// "fleet". It compares package informer/fleet with the dynamic factory of client-go, with a cache of
// controller-runtime, and with the watch manager of kro, which keeps metadata only.
//
// The server serves 500 kinds of CustomResourceDefinitions by HTTP/2, with one object each, which does
// not change. Each contender has a process of its own: it wants all kinds, waits until the caches are
// filled, and notes what it costs to wait.
//
// A test in fake time counts requests and lines of logs after a definition was deleted:
//
//	go test -C internal/bench ./fleetbench -run HourAfterDeletion -v
package fleetbench
