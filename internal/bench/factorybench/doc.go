// Package factorybench measures the start of a program with informers of 20 kinds: the subcommand
// "factory". It compares a factory of package informer/clientgo/factory with client-go's, on the objects
// of a cluster ([objects.Cluster]) in protobuf.
//
// Each contender has a process of its own. It makes the informers with a handler each, and notes what it
// costs until the handlers have got all objects.
package factorybench
