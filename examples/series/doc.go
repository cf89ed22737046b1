// Package series is the series "Understanding Kubernetes' tools/cache package" as code: one small
// generic type for each of its concepts, without the machinery that a production library needs.
package series
