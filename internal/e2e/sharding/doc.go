// Package sharding tests that the reflectors of some shards hold everything between them, and nothing twice, on a real API server that knows
// shard selectors (feature gate ShardedListAndWatch) and on one that does not, and what each of them reads for it. It has no code of its own.
package sharding
