package compact

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type text struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func textKey(t *text) (store.Key, error) { return store.Key{Name: t.Name}, nil }

// learn makes a packer look at objects that are like each other and like no others.
func learn(t *testing.T, p *Packer[*text], kind int) (packed []*Packed[*text]) {
	t.Helper()
	p.learner.mu.Lock()
	p.learner.seen, p.learner.sample, p.learner.look = 0, nil, firstLook
	p.learner.mu.Unlock()
	much := ""
	for i := range 200 {
		much += fmt.Sprintf("%d.", (kind+1)*(i+7)*7919)
	}
	for i := range firstLook + 1 {
		one, err := p.Pack(&text{fmt.Sprint(kind, "-", i), much})
		require.NoError(t, err)
		packed = append(packed, one)
	}
	return packed
}

func TestDictionariesAreBoundedAndFreed(t *testing.T) {
	p := NewPacker(textKey, WithRecent(0))
	var all [][]*Packed[*text]
	for kind := range maxDictionaries + 3 {
		all = append(all, learn(t, p, kind))
		assert.Equal(t, int32(min(kind+1, maxDictionaries)), p.dictionaries.Load())
	}
	for kind := range all {
		for i, one := range all[kind] {
			assert.Equal(t, fmt.Sprint(kind, "-", i), one.Object().Name)
		}
	}
	all = nil
	for cycle := 0; p.dictionaries.Load() > 1 && cycle < 100; cycle++ {
		runtime.GC()
		runtime.Gosched()
	}
	require.EqualValues(t, 1, p.dictionaries.Load(), "they went with their objects")
	last := p.current.Load().dictionary
	learned := learn(t, p, 100)
	assert.NotSame(t, last, p.current.Load().dictionary, "there is room again")
	assert.Same(t, p.current.Load().dictionary, learned[firstLook].by)
}

func TestDamagedBytesAreAnError(t *testing.T) {
	p := NewPacker(textKey, WithRecent(0))
	one, err := p.Pack(&text{"a", "b"})
	require.NoError(t, err)
	_, err = (&Packed[*text]{by: one.by, data: one.data[:len(one.data)-1]}).Decode()
	assert.IsType(t, &DecodeError{}, err)
	assert.ErrorContains(t, err, `"a"`)
}

func TestPackersAreFreed(t *testing.T) {
	freed := make(chan struct{})
	func() {
		p := NewPacker(textKey)
		runtime.AddCleanup(p, func(done chan struct{}) { close(done) }, freed)
		learn(t, p, 1)
		require.EqualValues(t, 1, p.dictionaries.Load())
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("a packer that nobody has is still there")
}

// Two goroutines take turns, and one of them always writes.
func TestWritersWhoTakeTurnsKeepNoMoreAndMore(t *testing.T) {
	var r recent[*int]
	r.limit = 4
	var first *Packed[*int]
	done := r.write()
	for range 100 {
		p := &Packed[*int]{}
		r.stage(p, new(int))
		if first == nil {
			first = p
		}
		next := r.write()
		assert.NotNil(t, p.live.Load(), "its write is not done")
		done()
		done = next
		assert.Less(t, len(r.staged), 4)
	}
	assert.Nil(t, first.live.Load())
	done()
	assert.Empty(t, r.staged)
	assert.Len(t, r.slots, 4)
}
