package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A failure is something that is wrong in a run. Failures with one key are one finding.
type failure struct{ key, text string }

// result is what a run has shown.
type result struct {
	scenario *Scenario // as Outside has set it for this run
	writes   []string  // up to the first crash, without refused ones: where others can be disturbed
	steps    []int     // of each of them, the step before it; 0 is none
	elects   bool      // the operator writes leases
	watched  []string  // resources
	after    map[int]state
	settled  map[int]time.Time // when a step's state was noted
	requests int
	noops    int
	created  map[string]int // by object
	deleted  map[string]int
	removed  map[string]int // by the garbage collector, and not made again since
	failures []failure
	missed   []clause // that never happened
	doubtful bool     // a panic may be that of a run beside this one
	retried  bool     // a failure lasts, so more requests than undisturbed are right
	restored bool     // the server has lost writes, so they are right a second time
	fatal    error    // the run cannot be what others are compared with
	last     string   // write
	trace    []string
}

var errNil = errors.New("it returned nil")

func (r *result) fail(key, format string, args ...any) {
	if !slices.ContainsFunc(r.failures, func(f failure) bool { return f.key == key }) {
		r.failures = append(r.failures, failure{key, fmt.Sprintf(format, args...)})
	}
}

// compare returns what is wrong in a run, beside an undisturbed one.
func (r *result) compare(undisturbed *result) []failure {
	s := r.scenario
	for n := 0; n <= len(s.Steps); n++ {
		// Without a state, the next step did not wait.
		now, ok := r.after[n]
		usual, waited := undisturbed.after[n]
		if !ok || !waited {
			continue
		}
		if key, text := usual.difference(now); text != "" {
			r.fail(key, "%s the cluster differs from the undisturbed run: %s", s.moment(n), text)
			break
		}
	}
	for _, kind := range []struct {
		verb       string
		now, count map[string]int
	}{{"created", r.created, undisturbed.created}, {"deleted", r.deleted, undisturbed.deleted}} {
		for _, object := range slices.Sorted(maps.Keys(kind.now)) {
			if n, usual := kind.now[object], kind.count[object]; n > usual && !r.restored {
				r.fail(kind.verb+" "+kindOf(object), "%s was %s %d times, undisturbed %d times", object, kind.verb, n, usual)
			}
		}
	}
	if limit := 3*undisturbed.noops + 10; r.noops > limit && !r.retried {
		r.fail("no-ops", "%d writes changed nothing, undisturbed %d", r.noops, undisturbed.noops)
	}
	if limit := 4*undisturbed.requests + 40; r.requests > limit && !r.retried {
		r.fail("requests", "the operator sent %d requests, undisturbed %d", r.requests, undisturbed.requests)
	}
	return slices.DeleteFunc(r.failures, func(f failure) bool {
		return slices.ContainsFunc(undisturbed.failures, func(usual failure) bool { return usual.key == f.key })
	})
}

// moment says between which steps the n-th state is.
func (s *Scenario) moment(n int) string {
	if n == 0 {
		return "before the first step"
	}
	return fmt.Sprintf("after step %d (%s)", n, s.Steps[n-1].Name)
}

func kindOf(object string) string { kind, _, _ := strings.Cut(object, " "); return kind }

// checkNow checks what holds at each state. It reports whether the run can go on.
func (w *world) checkNow() bool {
	w.checkPanics()
	if v := w.server.ResourceVersion(); v != w.checked && w.scenario.Invariant != nil {
		w.checked = v
		var err error
		w.playing.call("Scenario.Invariant", func() { err = w.scenario.Invariant(w.server) })
		if err != nil {
			w.result.fail("invariant", "the invariant does not hold at version %d: %.500v", v, err)
		}
	}
	for _, f := range w.failing {
		if limit := int(f.since/time.Second) + 20; f.refused > limit {
			w.result.fail("no back-off "+f.name, "%s was tried more than %d times while it failed for %s: an operator backs off", f.name, limit, shortDuration(f.since))
			return false
		}
	}
	if w.written > maxWrites {
		last := w.result.last
		if len(w.changed) > 0 {
			last += ", which changed " + w.changed[0].path
		}
		w.fails(fmt.Errorf("the operator does not settle: it has sent %d writes, the last one is %s; if it writes as time passes, let Quiet be shorter than its period", w.written, last))
		return false
	}
	return true
}

func (w *world) checkPanics() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, value := range w.panics {
		w.result.fail("panic "+value, "the operator panics: %s", value)
	}
	w.panics = nil
	if w.overlap != nil {
		w.result.fail("two leaders", "a process writes to %s after it has lost its lease and another process has it: end the work with the context of the term", w.alias(*w.overlap))
	}
	if w.twins {
		w.result.fail("one identity", "two processes hold one lease at once, because their identities are equal: add a UUID to each")
	}
	w.result.doubtful = w.doubtful
}

// forget takes a write that the server has not stored from the places where others are disturbed.
func (w *world) forget(m *message) {
	if i := slices.Index(w.result.writes, m.id); i >= 0 {
		w.result.writes, w.result.steps = slices.Delete(w.result.writes, i, i+1), slices.Delete(w.result.steps, i, i+1)
	}
}

// checkWrite compares a stored write with what its process had read.
func (w *world) checkWrite(m *message, contentType string, before uint64, body, content []byte) {
	t, p := m.target.object(), m.process
	var o struct{ Metadata objectMeta }
	if json.Unmarshal(content, &o) != nil {
		return
	}
	if m.verb != "update" && m.verb != "patch" {
		w.moved = time.Now()
	}
	if m.verb == "create" {
		t.name = o.Metadata.Name
		w.learnName(o.Metadata.GenerateName, t.name)
		if m.target.subresource == "" && !w.dangles(o.Metadata) {
			w.created(groupName(w.alias(t)))
		}
		return
	}
	if m.verb == "deletecollection" {
		return
	}
	prior := w.server.At(t.gvr, t.namespace, t.name, before)
	if prior == nil {
		if !w.dangles(o.Metadata) { // by an apply
			w.created(groupName(w.alias(t)))
		}
		return
	}
	var sent struct {
		Preconditions struct{ UID, ResourceVersion *string }
		Metadata      struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(body, &sent) // a JSON patch is no object: it has no version
	name := m.verb + " " + w.alias(m.target)
	if m.verb == "delete" {
		if decode(prior.JSON()).string("metadata", "deletionTimestamp") == "" {
			w.result.deleted[groupName(w.alias(t))]++
		}
		guarded := sent.Preconditions.UID != nil || sent.Preconditions.ResourceVersion != nil
		if shown := p.cached[t].uid; shown != "" && string(shown) != prior.UID && !guarded {
			w.result.fail("deletes unseen "+t.gvr.Resource, "%s removed another object than the one with that name in the operator's cache: delete with a UID precondition", name)
		}
		return
	}
	number, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if number <= before && w.server.At(t.gvr, t.namespace, t.name, w.server.ResourceVersion()) == nil {
		w.moved = time.Now() // it removed the last finalizer
		return
	}
	if number <= before {
		if w.busy() {
			w.result.noops++
		}
		w.forgive()
		return
	}
	w.moved = time.Now()
	if now := w.server.At(t.gvr, t.namespace, t.name, number); now != nil && w.written > maxWrites {
		w.changed = differences(decode(prior.JSON()), decode(now.JSON()))
	}
	if v := sent.Metadata.ResourceVersion; v != "" && v != "0" {
		return // the server has compared
	}
	if strings.HasPrefix(contentType, string(types.ApplyPatchType)) || contentType == string(types.JSONPatchType) && strings.Contains(string(body), `"test"`) {
		return // its fields have an owner, or it tests what it replaces
	}
	known, ok := p.known[t]
	if !ok || known.version >= prior.Version {
		return
	}
	then, now := w.server.At(t.gvr, t.namespace, t.name, known.version), w.server.At(t.gvr, t.namespace, t.name, number)
	if then == nil || now == nil {
		return
	}
	if then.UID != prior.UID {
		w.result.fail("overwrites another "+t.gvr.Resource, "%s changed another object than the one with that name that the operator had read: send its resource version or its UID", name)
		return
	}
	theirs := map[string]change{}
	for _, d := range differences(decode(then.JSON()), decode(prior.JSON())) {
		theirs[d.path] = d
	}
	for _, d := range differences(decode(prior.JSON()), decode(now.JSON())) {
		if other, ok := theirs[d.path]; ok && d.loses(other) {
			w.result.fail("overwrites "+t.gvr.Resource+" "+d.path, "%s changed %s, which had changed since the operator read it: send the resource version that it has read", name, d.path)
		}
	}
}

// forgive does not count a write that changes nothing while another one fails: each try repeats the writes before it.
func (w *world) forgive() {
	if slices.ContainsFunc(w.failing, func(f *failing) bool { return time.Now().Before(f.until) }) {
		w.written--
	}
}

// created counts a creation, but for that of an object that the garbage collector has removed: an operator
// that is kept from saving it makes it again.
func (w *world) created(object string) {
	if w.result.removed[object] > 0 {
		w.result.removed[object]--
		return
	}
	w.result.created[object]++
}

// loses reports whether a change undoes an earlier one of the same field. Of lists, which the server may
// have merged, it does so only if an item that was added is gone.
func (c change) loses(earlier change) bool {
	added, isList := earlier.after.([]any)
	now, stillList := c.after.([]any)
	if !isList || !stillList {
		return true
	}
	before, _ := earlier.before.([]any)
	has := func(items []any, item any) bool {
		return slices.ContainsFunc(items, func(other any) bool { return reflect.DeepEqual(other, item) })
	}
	return slices.ContainsFunc(added, func(item any) bool { return !has(before, item) && !has(now, item) })
}

// dangles reports whether the owners of a new object are gone. An operator whose cache is late may create
// such an object, and the garbage collector deletes it: that is no mistake of the operator.
func (w *world) dangles(object objectMeta) bool {
	if len(object.OwnerReferences) == 0 {
		return false
	}
	for _, o := range w.server.Objects() {
		if slices.ContainsFunc(object.OwnerReferences, func(ref metav1.OwnerReference) bool { return string(ref.UID) == o.UID }) {
			return false
		}
	}
	return true
}

// checkObjects checks the annotations of another client, once the operator has settled.
func (w *world) checkObjects() {
	if len(w.annotated) == 0 {
		return
	}
	for _, o := range w.server.Objects() {
		for _, a := range w.annotated {
			if a.uid == o.UID && unstructuredOf(o).GetAnnotations()[annotationKey] == "" {
				w.result.fail("removes annotations of "+o.GVK.Kind, "the operator removed an annotation that another client had set on %s", w.alias(targetOf(o)))
			}
		}
	}
}

// checkDeletions checks that no object is left in deletion at the end.
func (w *world) checkDeletions() {
	for _, o := range w.server.Objects() {
		if t := targetOf(o); !t.unscheduled() {
			if object := unstructuredOf(o); object.GetDeletionTimestamp() != nil {
				w.result.fail("stuck "+o.GVK.Kind, "%s is still being deleted at the end, held by the finalizers %q", w.alias(t), object.GetFinalizers())
			}
		}
	}
}

func targetOf(o *reflectortest.StoredObject) target {
	return target{gvr: o.GVR, namespace: o.Namespace, name: o.Name}
}

// An annotation is on an object that another client has annotated.
type annotation struct{ uid string }

const annotationKey = "simulate.kubereflector/another-client"

// annotate plays another client that annotates an object of the operator.
func (w *world) annotate(t target) {
	generated, prefix := strings.CutSuffix(t.name, "*")
	for _, o := range w.server.Objects() {
		if o.GVR != t.gvr || o.Namespace != t.namespace || o.Name != t.name && !(prefix && strings.HasPrefix(o.Name, generated)) {
			continue
		}
		object := unstructuredOf(o)
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationKey] = "kept"
		object.SetAnnotations(annotations)
		var err error
		w.playing.call("an annotation by another client", func() { err = w.server.Update(object) })
		if err != nil {
			w.result.fail("annotate", "another client cannot annotate %s: %v", w.alias(t), err)
			continue
		}
		w.annotated = append(w.annotated, annotation{o.UID})
	}
	w.moved = time.Now()
}
