package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// alias returns a target with a name that all runs share.
func (w *world) alias(t target) string {
	t.name = w.aliasName(t.name)
	return t.String()
}

// learnNames notes the names that the server has generated for others than the operator.
func (w *world) learnNames() {
	objects := w.server.Objects()
	slices.SortFunc(objects, func(a, b *reflectortest.StoredObject) int { return cmp.Compare(a.Version, b.Version) })
	for _, o := range objects {
		w.learnName(decode(o.JSON()).string("metadata", "generateName"), o.Name)
	}
}

func (w *world) learnName(generated, name string) {
	if generated != "" && strings.HasPrefix(name, generated) && w.generated[name] == "" {
		alias := fmt.Sprintf("%s*%d", w.aliasName(generated), len(w.generated)+1)
		w.generated[name] = generated
		w.aliases = append([]string{name, alias}, w.aliases...)
		w.aliasing = strings.NewReplacer(w.aliases...)
	}
}

// aliasName replaces generated names, also within other names.
func (w *world) aliasName(name string) string {
	if w.aliasing == nil {
		return name
	}
	return w.aliasing.Replace(name)
}

// replacer replaces generated names by their prefix and a star, also within other names, and also where
// the prefix has a generated name.
func (w *world) replacer() *strings.Replacer {
	names := slices.SortedFunc(maps.Keys(w.generated), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var pairs []string // the longest name first, because the first one that matches is replaced
	for _, name := range names {
		prefix := strings.NewReplacer(pairs...).Replace(w.generated[name])
		pairs = append([]string{name, prefix + "*"}, pairs...)
	}
	return strings.NewReplacer(pairs...)
}

// groupName is an alias without its number.
func groupName(alias string) string {
	if at := strings.LastIndex(alias, "*"); at >= 0 {
		return alias[:at+1]
	}
	return alias
}
