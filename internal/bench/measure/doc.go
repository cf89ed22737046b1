// Package measure has what the comparisons of this module share: cases that are measured on our side
// and on the peer's in turn, and a table with one line a case.
//
// A [Case] has two rounds, one a side. They run in turn, so that a machine that becomes slower or
// faster affects both. A round prepares what it needs and then measures with [Elapsed], [PerOp],
// [CPU], [Allocations] or [LiveHeap]. Those collect garbage first, so that no round pays for the
// garbage of another one. Contenders that need a process of their own are measured by a
// [Comparison].
//
// The table marks a goal that is missed. It is no error: the figures of a busy machine prove nothing.
package measure
