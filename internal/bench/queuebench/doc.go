// Package queuebench measures how an event gets from a commit to a handler, beside client-go's shared informer: the subcommand "queue".
//
// Both sides run an informer with handlers, and begin where the object is decoded already. Ours writes to the informer's store, the peer does what its
// processDeltas does: it looks the old object up, updates the indexer and passes both to the listeners. Neither has an index. Each round changes every
// chosen pod once, and ends when every handler has been called for every change. Each handler counts its calls in a cache line of its own.
//
// A random round changes all pods in random order. A hot round changes the same 1,000 pods as the round before. Wall is the time from the first change
// to the last call; CPU is what the whole process uses meanwhile.
package queuebench
