// Package measure is what the comparisons of this module have in common: cases that are measured on our side and on the peer's in turn, and a table
// with one line a case.
//
// A [Case] has two rounds, one a side. [Table.Run] calls them in turn (ours, peer, ours, peer, ...), so that a machine that becomes slower or faster
// meanwhile does so for both, and shows the medians. A round prepares whatever it needs and then measures with [Elapsed], [PerOp], [CPU], [Allocations] or
// [LiveHeap]; those collect garbage first, so that no round pays for what another one, or its own preparation, left behind.
//
// A goal that is missed is marked in the table. It is no error: the figures of a busy machine prove nothing.
package measure
