package main

// mutants are sorted by package.
var mutants = []mutant{{
	name:  "shard: a lease that this member gave back is taken again",
	file:  "controller/shard/tenure.go",
	text:  "case mine && wanted && t.given != c.version():",
	with:  "case mine && wanted:",
	tests: []string{"./controller/shard"},
}, {
	name:  "shard: a renewal that changed nothing counts",
	file:  "controller/shard/keeper.go",
	text:  "if err == nil && lease.ResourceVersion == before {",
	with:  "if err == nil && lease.ResourceVersion == before && false {",
	tests: []string{"./controller/shard"},
}, {
	name:  "shard: the version of the leases is read after the walk",
	file:  "controller/shard/sight.go",
	text:  "v.version = version",
	with:  "v.version, _ = s.leases.Cache().ResourceVersion(), version",
	tests: []string{"./controller/shard"},
}, {
	name:  "eventqueue: the buffer has no bound",
	file:  "eventqueue/follower.go",
	text:  "\t\truntime.Gosched()\n\t\tif b.room() < len(all) {\n\t\t\treturn false\n\t\t}\n",
	with:  "\t\truntime.Gosched()\n",
	tests: []string{"./eventqueue"},
}, {
	name:  "eventqueue: a resync reports additions",
	file:  "eventqueue/follower.go",
	text:  "change.Type, change.Prior = Modification, change.Object",
	with:  "change.Prior = change.Object",
	tests: []string{"./eventqueue", "./informer"},
}, {
	name:  "feed: floors do not keep an older state out",
	file:  "internal/feed/selected.go",
	text:  "if from != nil && !restored && newer(floor, versionOf(best)) && from.lacks(key, floor) {",
	with:  "if false && from != nil && !restored && newer(floor, versionOf(best)) && from.lacks(key, floor) {",
	tests: []string{"./internal/feed"},
}, {
	name:  "protocol: a due relist is ignored at the end of a watch",
	file:  "reflector/internal/protocol/end.go",
	text:  "\t\tif p.relistDue() {\n\t\t\tp.stop(nil)",
	with:  "\t\tif false {\n\t\t\tp.stop(nil)",
	tests: []string{"./reflector/internal/protocol", "./reflector"},
}, {
	name:  "protocol: a short watch with a due relist backs off",
	file:  "reflector/internal/protocol/end.go",
	text:  "if !p.relistDue() && (p.brief > 1",
	with:  "if (p.brief > 1",
	tests: []string{"./reflector/internal/protocol", "./reflector"},
}, {
	name:  "reflector: a list that the store ended counts as watching",
	file:  "reflector/run.go",
	text:  "if r.stream != nil && (err == nil || protocol.Rejected(err)) {",
	with:  "if r.stream != nil {",
	tests: []string{"./reflector"},
}, {
	name:  "reflector: a deletion during a watch-list is still counted",
	file:  "reflector/staging.go",
	text:  "s.size = max(s.size-1, 0)",
	with:  "_ = s.size",
	tests: []string{"./reflector"},
}, {
	name:  "reflector: objects are not decoded although the version was reused",
	file:  "reflector/request.go",
	text:  "if !r.batching || r.protocol.Unavailable() ||",
	with:  "if !r.batching ||",
	tests: []string{"./reflector"},
}, {
	name:  "client: the rate limit applies to watches",
	file:  "reflector/client/request.go",
	text:  "\t\t\trequest.Throttle(nil)\n",
	with:  "",
	tests: []string{"./reflector/client", "./reflector"},
}, {
	name:  "client: one object may have any size",
	file:  "internal/wire/stream/reader.go",
	text:  "from.all(r.MaxObjectBytes)",
	with:  "from.all(1 << 40)",
	tests: []string{"./internal/wire/stream", "./reflector/client", "./reflector"},
}, {
	name:  "store: a deletion makes no room in the budget for the same batch",
	file:  "store/budget.go",
	text:  "b.planned -= b.was(c, key)",
	with:  "_ = b.was(c, key)",
	tests: []string{"./store"},
}, {
	name:  "store: a write of a list keeps the earlier write of its key",
	file:  "store/replace.go",
	text:  "\tb.supersede(w.key)\n\tif w.what == isDeleted {",
	with:  "\tif w.what == isDeleted {",
	tests: []string{"./store"},
}, {
	name:  "store: a key without versions counts as taken over",
	file:  "store/sharing.go",
	text:  "if number, _ := reached(version, \"1\"); !number {",
	with:  "if number, _ := reached(version, \"1\"); false && !number {",
	tests: []string{"./store"},
}, {
	name:  "persist: a file that was being filled is complete",
	file:  "store/persist/write.go",
	text:  "if made.Transaction != s.saved.Transaction && !made.Filling {",
	with:  "if made.Transaction != s.saved.Transaction {",
	tests: []string{"./store/persist"},
}, {
	name:  "persist: another process writes between read and open",
	file:  "store/persist/load.go",
	text:  "if err == nil && state.Transaction == l.state.Transaction && state.Sum == l.state.Sum {",
	with:  "if _ = state; err == nil {",
	tests: []string{"./store/persist"},
}, {
	name:  "persist: the sum of the checksums is not compared",
	file:  "store/persist/load.go",
	text:  "|| sum != state.Sum {",
	with:  "|| sum != state.Sum && false {",
	tests: []string{"./store/persist"},
}, {
	name:  "persist: the directory of a new file is not synced",
	file:  "store/persist/file.go",
	text:  "\tsyncFile(d) //",
	with:  "\t//",
	tests: []string{"./store/persist"},
}}
