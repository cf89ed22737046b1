package reflector_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// repainted is a follower that writes down the changes.
type repainted []string

func (*repainted) Start(*store.Snapshot[*Paint]) {}

func (r *repainted) Commit(commit *store.Commit[*Paint]) {
	for _, c := range commit.Changes {
		*r = append(*r, fmt.Sprintf("%v %s", c.Type, c.Object.Data.Color))
	}
}

// The second answer of the server has the same version as the first one. What counts is whether the
// content is the same, however the bytes look.
func TestBytesThatDifferAreAChangeIfTheContentDoes(t *testing.T) {
	const (
		metadata = `"metadata":{"namespace":"default","name":"a","uid":"u","resourceVersion":"5","managedFields":[{"manager":"x"}]}`
		first    = `{` + metadata + `,"data":{"color":"red"}}`
	)
	replaced := func(old, new string) string { return strings.Replace(first, old, new, 1) }
	unversioned := func(object string) string {
		return strings.NewReplacer(`"uid":"u",`, "", `"resourceVersion":"5",`, "").Replace(object)
	}
	expired := jsonError(apierrors.NewResourceExpired("too old"))
	for form, serve := range map[string]func(first, second string) (*scripted, []reflector.Option){
		"list": func(first, second string) (*scripted, []reflector.Option) {
			return &scripted{lists: []scriptedAnswer{jsonList("7", first), jsonList("9", second)}, watches: []scriptedAnswer{{body: expired}}},
				[]reflector.Option{reflector.WithoutWatchList()}
		},
		"watch-list": func(first, second string) (*scripted, []reflector.Option) {
			return &scripted{lists: []scriptedAnswer{jsonList("7", first)}, watches: []scriptedAnswer{
				{body: jsonStream("7", first)}, {body: expired}, {body: jsonStream("9", second), open: true},
			}}, nil
		},
		"watch": func(first, second string) (*scripted, []reflector.Option) {
			return &scripted{lists: []scriptedAnswer{jsonList("7", first)}, watches: []scriptedAnswer{
				{body: jsonEvent(watch.Modified, second) + jsonEvent(watch.Added, second), open: true},
			}}, []reflector.Option{reflector.WithoutWatchList()}
		},
	} {
		for name, tc := range map[string]struct {
			first, second string
			drop          bool // managedFields
			want          repainted
		}{
			"the same":                     {second: first},
			"another order":                {second: `{"data":{"color":"red"},` + metadata + `}`},
			"another order of metadata":    {second: replaced(`"name":"a","uid":"u"`, `"uid":"u","name":"a"`)},
			"spaces":                       {second: ` { ` + metadata + ` , "data" : { "color" : "red" } } `},
			"a kind":                       {second: `{"kind":"ConfigMap","apiVersion":"v1",` + first[1:]},
			"an empty member":              {second: replaced(`"uid"`, `"labels":{},"annotations":null,"uid"`)},
			"dropped managedFields":        {second: replaced(`"x"`, `"y"`), drop: true},
			"kept managedFields":           {second: replaced(`"x"`, `"y"`), want: repainted{"Modification red"}},
			"another color":                {second: replaced("red", "black"), want: repainted{"Modification black"}},
			"another color, and an order":  {second: `{"data":{"color":"black"},` + metadata + `}`, want: repainted{"Modification black"}},
			"no version, the same":         {first: unversioned(first), second: unversioned(first)},
			"no version, another color":    {first: unversioned(first), second: unversioned(replaced("red", "black")), want: repainted{"Modification black"}},
			"no version after a known one": {second: unversioned(first), want: repainted{"Modification red"}},
		} {
			if tc.first == "" {
				tc.first = first
			}
			t.Run(form+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, opts := serve(tc.first, tc.second)
					var dropping []client.ResourceOption
					if tc.drop {
						dropping = append(dropping, client.WithoutManagedFields())
					}
					s := store.New(store.ObjectKey[*Paint])
					var heard repainted
					s.Follow(&heard)
					stop := start(t, reflector.New(server.client(t, dropping...), s, opts...))
					<-time.After(3 * time.Minute)
					stop()
					assert.Equal(t, append(repainted{"Addition red"}, tc.want...), heard)
				})
			})
		}
	}
}
