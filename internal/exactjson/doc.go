// Package exactjson encodes objects as JSON so that a number in an any keeps its Go type.
//
// Kubernetes' decoders turn a number without a point or an exponent into an int64, and every other
// number into a float64. encoding/json writes the float64 3 as 3, so that an object which is
// written and read again holds an int64: it differs from what it was, and
// unstructured.NestedFloat64 fails. This package writes 3.0. Read the result with
// k8s.io/apimachinery/pkg/util/json, because encoding/json reads every number into a float64, which
// cannot hold the integers beyond 2^53.
package exactjson
