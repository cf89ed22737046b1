// Package memorybench measures the memory of stores per object, and the cost to fill and to read
// them: the subcommand "memory". It compares the stores of this library, with their memory options,
// with the indexer of client-go's informers.
//
// The pods are as alike as pods can be, or like pods of a real cluster (names with "-field"). Each
// contender has a process of its own. The process fills its store from a server of package
// apiserver, as a program does from an API server, and then measures itself. All cases of one
// contender share the measurements of one process, round by round.
package memorybench
