// Package faults runs every kind of reader while the network, the API servers and etcd fail, and compares what the readers hold with what the server
// has. It has no code of its own.
//
// Two kube-apiservers share one etcd and, for the readers, one address. Two writers create, change, relabel, delete and re-create ConfigMaps. A round
// begins one or two faults and ends them, lets the writers stop, and then waits until each reader agrees with a quorum list in keys, UIDs, versions
// and contents. No event and no read may go back to an earlier version, except after a restore of etcd. No event may say that an object is deleted
// that still exists, and no reconcile function may get nil for it.
//
// Each fault comes once by default. With a duration, faults come at random, up to two at a time, for some of the readers or for all, while owned
// selectors come and go:
//
//	go test -C internal/e2e ./faults -v -faults.seed=7 -faults.duration=5m
//
// The seed decides what is written and which faults come when. The scheduler and the servers decide the rest, so a seed that failed may pass.
package faults
