package conformance

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/sharding"
)

// shard keeps selectors under two names, as they are in the query of a URL: that of the range with just the hash of a
// value, and that of all others.
func (r *runner) shard(in, out, field, value string) {
	r.t.Helper()
	hash, err := strconv.ParseUint(sharding.HashField(value), 16, 64)
	require.NoError(r.t, err)
	selector := func(ranges ...[2]string) string {
		words := make([]string, len(ranges))
		for i, each := range ranges {
			words[i] = fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, each[0], each[1])
		}
		return url.QueryEscape(strings.Join(words, " || "))
	}
	const least, end = "0x0000000000000000", "0x10000000000000000"
	at := func(hash uint64) string { return fmt.Sprintf("0x%016x", hash) }
	// That a hash is the first or the last of all, a test will not live to see.
	r.values[in] = selector([2]string{at(hash), at(hash + 1)})
	r.values[out] = selector([2]string{least, at(hash)}, [2]string{at(hash + 1), end})
}
