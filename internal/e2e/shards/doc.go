// Package shards tests processes that share the objects of a custom resource by shards, against a real API server: with one that selects shards, and with
// one that ignores the selector, so that they filter by themselves. One is killed, two come, and one is cut off. It has no code of its own.
//
// Who reconciled what is asked of the server: each write names the holder of the shard and its term, and of each object the history says in which order
// they came. An older holder that writes after a newer one has would be two at one time.
//
// TestProcessesShareObjects takes some hundreds of objects. With 20,000 of them it takes some minutes:
//
//	KUBEREFLECTOR_E2E_PLOTS=20000 go test -C internal/e2e -run Share -v -timeout 30m ./shards
package shards
