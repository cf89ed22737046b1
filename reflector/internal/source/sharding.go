package source

// The reflector always filters by its shards, also if the server claims to do so. A server may be
// upgraded or restored, and its replicas may disagree.

// Sharding says whether the server or the reflector drops objects outside the reflector's shards:
// see [reflector.WithShard].
type Sharding string

const (
	// ShardingUnknown means that the server has sent no evidence yet.
	ShardingUnknown Sharding = "unknown"
	// ShardedByServer means that the server said that it filters, or that it has sent only objects
	// in the shards since the last list began.
	ShardedByServer Sharding = "server"
	// ShardedByClient means that the server did not get the selector or ignored it. The server
	// sends all objects, and the reflector drops those outside the shards, usually before it
	// decodes them.
	ShardedByClient Sharding = "client"
)
