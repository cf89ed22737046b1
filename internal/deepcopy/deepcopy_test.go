package deepcopy

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestCopySharesNothing(t *testing.T) {
	type inner struct {
		List  []map[string]*int
		Any   any
		Fixed [2]*string
		big   *big.Int
	}
	type outer struct {
		metav1.ObjectMeta
		Quantity resource.Quantity
		Inner    *inner
		None     *inner
		Empty    []string
		Nil      map[string]string
		Nothing  any
	}
	number, text := 1, "x"
	make := func() *outer {
		return &outer{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}},
			Quantity:   resource.MustParse("123456789012345678901234567890"),
			Inner:      &inner{List: []map[string]*int{{"one": &number}}, Any: []string{"y"}, Fixed: [2]*string{&text}, big: big.NewInt(1)},
			Empty:      []string{},
		}
	}
	from := make()
	to := Of(from)
	assert.Equal(t, from, to)
	to.Labels["a"], *to.Inner.List[0]["one"], to.Inner.Any.([]string)[0], *to.Inner.Fixed[0] = "c", 2, "z", "z"
	to.Inner.List[0]["two"] = nil
	to.Quantity.Add(resource.MustParse("1"))
	assert.Equal(t, make(), from)
	assert.Equal(t, 1, number)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	Of(pod).Labels["a"] = "c"
	assert.Equal(t, "b", pod.Labels["a"])
	type embedding struct {
		*corev1.Pod
		More []string
	}
	e := &embedding{pod, []string{"x"}}
	c := Of(e)
	c.Labels["a"], c.More[0] = "c", "y"
	assert.Equal(t, "b", pod.Labels["a"])
	assert.Equal(t, "x", e.More[0])
}

// hidden is embedded by types whose decoders fill its exported fields.
type hidden struct{ Labels map[string]string }

// whole is an interface that a type has by embedding another one that copies itself.
type whole interface{ runtime.Object }

func TestCopyKeepsTheTypeAndWhatIsEmbedded(t *testing.T) {
	type more struct {
		corev1.Pod
		hidden
		Extra map[string]string
	}
	from := &more{corev1.Pod{}, hidden{map[string]string{"a": "b"}}, map[string]string{"c": "d"}}
	to, ok := Of[whole](from).(*more)
	require.True(t, ok, "Pod's DeepCopyObject returns a Pod")
	to.hidden.Labels["a"], to.Extra["c"] = "x", "y"
	assert.Equal(t, "b", from.hidden.Labels["a"])
	assert.Equal(t, "d", from.Extra["c"])
}
