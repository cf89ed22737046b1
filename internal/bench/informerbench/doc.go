// Package informerbench measures the way of an event to the handlers of an informer, beside
// client-go's shared informer.
//
// The subcommand "informer" uses the whole path. A minimal client, a list and a channel, hands
// decoded watch events of pods to the reflector. A thousand pods change, each once. The next round
// begins when every handler was called for every pod. So our side merges nothing, and no buffer of
// the other side grows.
//
// The subcommand "queue" begins at the commit. Ours writes to the informer's store. The peer does
// what its processDeltas does: it looks the old object up, updates the indexer and passes both to
// the listeners. Neither has an index. A random round changes all pods in random order. A hot round
// changes the same 1,000 pods as the round before.
//
// Figures are for one call of one handler, which counts its calls in a cache line of its own. CPU
// time covers the whole process, including the garbage collector. Unlike wall time, it does not grow
// when other programs use the machine, except through their effect on its caches.
package informerbench
