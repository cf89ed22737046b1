// Package queuebench measures how an event gets from a commit to a handler, beside client-go's shared informer: the subcommand "queue".
//
// Pods are updated, each once, until every handler has been called for every update, and then again. Both sides begin where the object is decoded already:
// ours with [store.Cache.Update], the peer with what its processDeltas does, which is to look the old object up, to update the indexer and to hand both
// to the listeners. Neither has an index. Handlers count what they are called for.
package queuebench
