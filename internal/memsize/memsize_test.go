package memsize

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestSizeIsAboutWhatTheHeapGrowsBy(t *testing.T) {
	type ring struct {
		next *ring
		text string
	}
	for name, object := range map[string]func(i int) any{
		"a pod": func(i int) any {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "namespace", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(i)}}
			p.Labels = map[string]string{}
			for j := range 12 {
				p.Labels[fmt.Sprint("label-", j)] = fmt.Sprint("value-", i)
			}
			for range 3 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
					Image:     strings.Repeat("i", 60+i%2),
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				})
			}
			return p
		},
		"text":  func(i int) any { return strings.Repeat("x", 1000+i%2) },
		"bytes": func(i int) any { b := make([]byte, 2000); return &b },
		"a ring": func(int) any {
			r := &ring{text: strings.Repeat("x", 500)}
			r.next = &ring{next: r, text: strings.Repeat("y", 500)}
			return r
		},
		"any": func(i int) any {
			return map[string]any{"a": []any{fmt.Sprint(i), int64(i)}, fmt.Sprint("b", i): map[string]any{"c": 1.5}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 500
			var all [n]any
			before := liveHeap()
			for i := range all {
				all[i] = object(i)
			}
			grown := float64(liveHeap() - before)
			var estimate int64
			for i := range all {
				estimate += Of(all[i])
			}
			assert.InEpsilon(t, grown, float64(estimate), 0.25)
			runtime.KeepAlive(all)
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestSizeOfWhatRefersToNothing(t *testing.T) {
	assert.EqualValues(t, 8, Of(1))
	assert.EqualValues(t, 24, Of(time.Now()), "its location is everybody's")
	assert.EqualValues(t, 8, Of[*corev1.Pod](nil))
	assert.EqualValues(t, 24, Of([]string(nil)))
	assert.EqualValues(t, 16, Of[any](nil))
}

// node is one of a graph in which there are 2 to the power of its depth ways, or of a list.
type node struct{ next [2]*node }

func TestSizeOfDenseAndOfDeepGraphs(t *testing.T) {
	var dense, deep *node
	for range 40 {
		dense = &node{next: [2]*node{dense, dense}}
	}
	for range 1000 {
		deep = &node{next: [2]*node{deep, nil}}
	}
	each := int64(unsafe.Sizeof(node{}))
	assert.Equal(t, 8+40*each, Of(dense))
	assert.Equal(t, 8+1000*each, Of(deep))
}

func TestSizeOfAMapThatIsNotExported(t *testing.T) {
	type holder struct{ all map[string]string }
	type shown struct{ All map[string]string }
	m := map[string]string{"a": strings.Repeat("x", 100)}
	assert.Equal(t, Of(shown{m}), Of(holder{m}))
	assert.Greater(t, Of(holder{m}), int64(100))
}
