package shard

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
)

// assign computes the target member of each shard from the current holders. In both slices "" means
// no member, and a holder that is not a member does not count. The shares of two members differ by
// one at most. As few shards as possible move: a member keeps its shards up to its share.
//
// Members may look at different moments of the same history. Members that look later assign the
// free shards as the earlier ones did: the shares do not depend on the progress of other members,
// and a free shard goes to the member with the highest preference among those with room.
func assign(members, holders []string) []string {
	target := make([]string, len(holders))
	if len(members) == 0 {
		return target
	}
	held := make(map[string][]int, len(members))
	for _, m := range members {
		held[m] = nil
	}
	for i, holder := range holders {
		if _, ok := held[holder]; ok {
			held[holder] = append(held[holder], i)
		}
	}
	share := shares(members, held, len(holders))
	for m, mine := range held {
		if room := share[m]; len(mine) > room {
			slices.SortFunc(mine, func(a, b int) int { return preference(m, b, a) })
			mine = mine[:room]
		}
		for _, i := range mine {
			target[i] = m
		}
		share[m] -= len(mine) // room for others
	}
	for i := range target {
		if target[i] != "" {
			continue
		}
		best := ""
		for _, m := range members {
			if share[m] > 0 && (best == "" || cmp.Or(cmp.Compare(wants(m, i), wants(best, i)), cmp.Compare(best, m)) > 0) {
				best = m
			}
		}
		target[i] = best
		share[best]--
	}
	return target
}

// shares returns the share of each member. If the number of shards is not divisible, members that
// already hold one more get one more.
func shares(members []string, held map[string][]int, n int) map[string]int {
	least, more := n/len(members), n%len(members)
	order := slices.Clone(members)
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(
			compareBool(len(held[a]) > least, len(held[b]) > least),
			cmp.Compare(wants(a, -1), wants(b, -1)),
			cmp.Compare(a, b),
		)
	})
	share := make(map[string]int, len(order))
	for i, m := range order {
		share[m] = least
		if i < more {
			share[m]++
		}
	}
	return share
}

// compareBool sorts true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// preference is negative if a member wants shard a less than shard b.
func preference(member string, a, b int) int {
	return cmp.Or(cmp.Compare(wants(member, a), wants(member, b)), cmp.Compare(a, b))
}

// wants returns the preference of a member for a shard. Every member computes the same number.
func wants(member string, shard int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(member + "/" + strconv.Itoa(shard)))
	x := h.Sum64()
	// The last bytes have hardly changed the upper bits.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
