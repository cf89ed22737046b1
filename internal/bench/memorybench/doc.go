// Package memorybench measures what stores keep of each object, and what it costs to fill and to read them: those of this library with what makes them
// smaller, beside the indexer of client-go's informers.
//
// The pods are as alike as pods can be, as those of a cluster in the field are (names with "-field"), or have nothing in
// common ("-unlike").
//
// Each contender has a process of its own, which fills its store from a server of package wirebench, as a program does from an API server, and then
// measures itself. Cases about one contender share what was measured in one process, round by round.
package memorybench
