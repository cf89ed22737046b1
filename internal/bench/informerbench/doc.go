// Package informerbench measures how an event gets from a watch to the handlers of an informer, beside client-go's shared informer: the subcommand
// "informer".
//
// Both sides take the whole way: a client that is no more than a list and a channel hands watch events of pods, decoded already, to the reflector, and
// handlers count their calls. A thousand pods change, each once, and the next round begins when every handler has been called for every one of them: so
// nothing is merged on our side, and no buffer grows on the other.
//
// Figures are for one call of one handler. CPU time is that of the whole process, with what the garbage collector takes. Unlike wall time it does not
// grow when others use the machine, but for what they do to its caches.
package informerbench
