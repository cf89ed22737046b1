// Package referencebench measures a cache of Secrets that an operator hardly uses: the subcommand
// "reference". It compares caching by reference in a cache of contrib/controllerruntime with
// controller-runtime's cache.
//
// The server has 5,000 Secrets of 32 kB. The operator owns 20 of them, and gets 20 others. Each
// contender has a process of its own: it fills its cache, reads the 40 Secrets, and notes its peak
// memory. Then Secrets of all sorts change, come and go, and its handler must see the last state of
// each.
//
// The server is the one of reflectortest, in the process of the benchmark.
package referencebench
