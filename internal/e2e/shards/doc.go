// Package shards tests shards on a real API server that knows shard selectors (feature gate
// ShardedListAndWatch), and on one that ignores them, so that clients filter by themselves. It has
// no code of its own.
//
// TestShardsOfARealServer: the reflectors of some shards hold everything between them, and nothing
// twice. It measures what each of them reads for that.
//
// TestProcessesShareObjects: processes share the objects of a custom resource. One is killed, two
// come, and one is cut off. Each write names the holder of the shard and its term, and the history of
// each object shows the order of the writes. A write of an older holder after one of a newer holder
// shows that two worked at one time.
//
// TestProcessesShareObjects takes some hundreds of objects. With 20,000 of them it takes some minutes:
//
//	KUBEREFLECTOR_E2E_PLOTS=20000 go test -C internal/e2e -run Share -v -timeout 30m ./shards
package shards
