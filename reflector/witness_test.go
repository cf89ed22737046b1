package reflector_test

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// journal has the writes, and the errors in the events that a store received.
type journal struct {
	mu      sync.Mutex // protects the fields below
	entries []entry
	stopped bool
	wrong   error
}

type entry struct {
	version uint64
	name    string
	hash    uint64
	deleted bool
}

// note writes something, before anybody can get it.
func (j *journal) note(server *reflectortest.Server, object *corev1.ConfigMap, write func() error, deleted bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := server.ResourceVersion()
	if err := write(); err != nil {
		return err
	}
	if now := server.ResourceVersion(); now != before {
		j.entries = append(j.entries, entry{now, object.Name, store.ShardHash(string(object.UID)), deleted})
	}
	return nil
}

// stop ends the checks: the versions mean something else from now on.
func (j *journal) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped = true
}

func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrong
}

// witness is a store that compares its writes with the journal.
type witness struct {
	*store.Cache[*corev1.ConfigMap]
	log   *journal
	shard store.Shard
	last  uint64 // all that was written up to here has come
}

// saw takes that what happened at a version came, or all up to a bookmark.
func (w *witness) saw(what, text string) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	version, err := strconv.ParseUint(text, 10, 64)
	switch {
	case w.log.stopped || w.log.wrong != nil:
		return
	case err != nil:
		w.log.wrong = err
	case version < w.last:
		w.log.wrong = fmt.Errorf("%s at %d came after %d", what, version, w.last)
	}
	for _, e := range w.log.entries {
		if e.version > w.last && (e.version < version || e.version == version && what == "bookmark") && w.shard.Contains(e.hash) {
			w.log.wrong = fmt.Errorf("%s at %d came, and what was written to %s at %d did not, after %d", what, version, e.name, e.version, w.last)
		}
	}
	w.last = version
}

func (w *witness) Add(o *corev1.ConfigMap) error {
	w.saw("addition", o.ResourceVersion)
	return w.Cache.Add(o)
}

func (w *witness) Update(o *corev1.ConfigMap) error {
	w.saw("modification", o.ResourceVersion)
	return w.Cache.Update(o)
}

func (w *witness) Delete(o *corev1.ConfigMap) error {
	w.saw("deletion", o.ResourceVersion)
	return w.Cache.Delete(o)
}

func (w *witness) Bookmark(version string) error {
	w.saw("bookmark", version)
	return w.Cache.Bookmark(version)
}

func (w *witness) Replace(objects []*corev1.ConfigMap, version string) error {
	w.log.mu.Lock()
	w.last, _ = strconv.ParseUint(version, 10, 64)
	want := map[string]uint64{}
	for _, e := range w.log.entries {
		switch {
		case e.version > w.last || !w.shard.Contains(e.hash):
		case e.deleted:
			delete(want, e.name)
		default:
			want[e.name] = e.version
		}
	}
	for _, o := range objects {
		if at, ok := want[o.Name]; !w.log.stopped && (!ok || fmt.Sprint(at) != o.ResourceVersion) {
			w.log.wrong = fmt.Errorf("list at %s has %s@%s, want %v", version, o.Name, o.ResourceVersion, want)
		}
	}
	w.log.mu.Unlock()
	return w.Cache.Replace(objects, version)
}
