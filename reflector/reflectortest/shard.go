package reflectortest

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/sharding"
)

// SetSharding sets whether the server supports shard selectors of lists and watches, as a real one
// does if its feature gate ShardedListAndWatch is on. Without it, which is the default of both
// servers, the server ignores these selectors. Open watches do not change.
func (s *Server) SetSharding(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sharding = on
}

// shardSelector reads the selector of a list or a watch, if the server supports selectors. As in
// the real server, the code of its error does not show the cause to a client.
func (c *call) shardSelector(text string) (*shardSelection, error) {
	c.server.mu.Lock()
	on := c.server.sharding
	c.server.mu.Unlock()
	if !on || text == "" {
		return nil, nil
	}
	selected, err := parseShards(text)
	if err != nil {
		return nil, fmt.Errorf("invalid shard selector: %w", err)
	}
	return selected, nil
}

// shardSelection is the meaning of a shard selector.
type shardSelection struct {
	byNamespace bool
	ranges      []hashRange
	text        string
}

// hashRange begins at start and ends before end, both in the form of the API.
type hashRange struct{ start, end string }

// shardRange is one range of a selector. The real server has a parser of CEL, which allows
// white space in more places.
var shardRange = regexp.MustCompile(`^\s*shardRange\(\s*object\.metadata\.(uid|namespace)\s*,\s*'(0x[0-9a-f]{16})'\s*,\s*'(0x[0-9a-f]{16}|0x10000000000000000)'\s*\)\s*$`)

func parseShards(text string) (*shardSelection, error) {
	s := &shardSelection{}
	var words []string
	for i, part := range strings.Split(text, "||") {
		found := shardRange.FindStringSubmatch(part)
		if found == nil {
			return nil, fmt.Errorf("cannot read %q", part)
		}
		byNamespace := found[1] == "namespace"
		if i > 0 && byNamespace != s.byNamespace {
			return nil, fmt.Errorf("all shard ranges must use the same field")
		}
		s.byNamespace = byNamespace
		if !sharding.HexLess(found[2], found[3]) {
			return nil, fmt.Errorf("shard range start %s must be less than end %s", found[2], found[3])
		}
		s.ranges = append(s.ranges, hashRange{found[2], found[3]})
		words = append(words, fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", found[1], found[2], found[3]))
	}
	s.text = strings.Join(words, " || ")
	return s, nil
}

// matches reports whether a record is selected; a nil selection selects everything.
func (s *shardSelection) matches(rec *record) bool {
	if s == nil {
		return true
	}
	value := rec.uid
	if s.byNamespace {
		value = rec.namespace
	}
	hash := "0x" + sharding.HashField(value)
	for _, r := range s.ranges {
		if !sharding.HexLess(hash, r.start) && sharding.HexLess(hash, r.end) {
			return true
		}
	}
	return false
}
