// Package informerbench measures the path of an event from a watch to the handlers of an informer,
// beside client-go's shared informer: the subcommand "informer".
//
// Both sides use the whole path. A minimal client, a list and a channel, hands decoded watch events
// of pods to the reflector. Handlers count their calls. A thousand pods change, each once. The next
// round begins when every handler was called for every pod. So our side merges nothing, and no
// buffer of the other side grows.
//
// Figures are for one call of one handler. CPU time covers the whole process, including the garbage
// collector. Unlike wall time, it does not grow when other programs use the machine, except through
// their effect on its caches.
package informerbench
