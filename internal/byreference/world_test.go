package byreference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// The watches of a world.
const (
	metadata = iota
	first
	second
	watches
)

const (
	maxKeys    = 2
	maxChanges = 8
	furthest   = 3 // how many changes the restore of a server loses; it is restored once
)

// object is one state of an object; zero for none.
type object struct{ uid, version, id, label uint8 }

// world is a server, its watches and what is shown. It is comparable, so it can be a key of a map.
type world struct {
	log      [maxChanges]change // the history of the server, of which a restore drops the end
	length   uint8
	made     uint8 // the number of changes, also of those that a restore lost
	restored bool
	now      [maxKeys]object
	watches  [watches]watch
	shown    [maxKeys]display
	open     [maxKeys]display // of the engine; whole stands for lost
	doomed   [maxKeys]bool    // after a restore was noticed, no watch had what is shown
	doubtful [maxKeys]bool    // when a restore was noticed, some watch had a state of the lost history
	noticed  bool             // the current step is a list that shows a restore
}

type change struct {
	key    uint8
	object object // zero for a deletion
}

type watch struct {
	on, synced bool
	lost       bool // it has to list, because the server does not have its version any more
	position   uint8
	has        [maxKeys]object
}

type display struct {
	object object
	whole  bool
}

// step is something that happens.
type step struct {
	what  string
	key   uint8
	label uint8
	watch int
	to    uint8
}

func (s step) String() string {
	return fmt.Sprintf("%s key=%d label=%d watch=%d to=%d", s.what, s.key, s.label, s.watch, s.to)
}

// The labels of objects.
const (
	noLabel = iota
	firstLabel
	secondLabel
	labelCount
)

var (
	sets      = [labelCount]labels.Set{{}, {"of": "first"}, {"of": "second"}}
	selectors = map[bool][watches]labels.Selector{
		false: {nil, labels.SelectorFromSet(sets[firstLabel]), labels.SelectorFromSet(sets[secondLabel])},
		true:  {nil, parse("of"), labels.SelectorFromSet(sets[secondLabel])},
	}
	keys    = [maxKeys]store.Key{{Name: "0"}, {Name: "1"}}
	numbers = func() (all [20]string) {
		for n := range all {
			all[n] = strconv.Itoa(n)
		}
		return all
	}()
)

func parse(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return selector
}

// selects reports whether a watch delivers a state.
func (c config) selects(w int, o object) bool {
	switch {
	case o.id == 0:
		return false
	case w == first:
		return o.label == firstLabel || c.overlap && o.label == secondLabel
	case w == second:
		return o.label == secondLabel
	}
	return true
}

// steps returns what may happen next.
func (w *world) steps(c config) (all []step) {
	writes := int(w.made)
	if w.restored && c.keys > 1 {
		writes-- // the search of one key counts a restore as a change, and is deep enough
	}
	for to := max(w.length, furthest) - furthest; to < w.length && !w.restored && int(w.made) < c.changes+c.keys-1; to++ {
		all = append(all, step{what: "restore", to: to})
	}
	if writes < c.changes {
		for key := range uint8(c.keys) {
			for label := range uint8(labelCount) {
				all = append(all, step{what: "write", key: key, label: label})
			}
			if w.now[key].id != 0 {
				all = append(all, step{what: "delete", key: key})
			}
		}
	}
	for n := range w.watches {
		at := &w.watches[n]
		if n != metadata {
			what := "add"
			if at.on {
				what = "remove"
			}
			all = append(all, step{what: what, watch: n})
		}
		if !at.on {
			continue
		}
		if at.lost || !at.synced || at.position < w.length {
			all = append(all, step{what: "list", watch: n})
		}
		if at.lost || !at.synced {
			continue
		}
		if _, ok := w.next(c, n); ok {
			all = append(all, step{what: "event", watch: n})
		} else if at.position < w.length {
			all = append(all, step{what: "bookmark", watch: n})
		}
	}
	return all
}

// at returns the state of an object at a version.
func (w *world) at(key, version uint8) (o object) {
	for _, c := range w.log[:version] {
		if c.key == key {
			o = c.object
		}
	}
	return o
}

// next returns the version of the next event of a watch.
func (w *world) next(c config, n int) (version uint8, ok bool) {
	for version = w.watches[n].position + 1; version <= w.length; version++ {
		changed := w.log[version-1]
		if c.selects(n, changed.object) || c.selects(n, w.at(changed.key, version-1)) {
			return version, true
		}
	}
	return 0, false
}

// take makes a step, and checks what it changes in what is shown.
func (w *world) take(c config, s step) error {
	switch s.what {
	case "write", "delete":
		w.made++
		changed := change{key: s.key}
		if s.what == "write" {
			changed.object = object{uid: w.now[s.key].uid, version: w.length + 1, id: w.made, label: s.label}
			if changed.object.uid == 0 {
				changed.object.uid = w.made
			}
		}
		w.now[s.key] = changed.object
		w.log[w.length] = changed
		w.length++
		return nil
	case "restore":
		w.made++
		w.restored = true
		clear(w.log[s.to:])
		w.length = s.to
		for key := range w.now {
			w.now[key] = w.at(uint8(key), s.to)
		}
		for n := range w.watches {
			w.watches[n].lost = w.watches[n].lost || w.watches[n].position > s.to
		}
		return nil
	case "add":
		w.watches[s.watch] = watch{on: true}
		return nil
	case "remove":
		e := w.engine(c)
		e.Remove(e.of(s.watch, w))
		w.watches[s.watch] = watch{}
		return w.decide(c, e, []uint8{0, 1}, false)
	}
	e := w.engine(c)
	at := &w.watches[s.watch]
	news := News{Synced: true, List: s.what == "list"}
	before, now := *at, w.length
	if s.what == "event" {
		now, _ = w.next(c, s.watch)
	}
	*at = watch{on: true, synced: true, position: now}
	var changed []uint8
	for key := range uint8(c.keys) {
		if o := w.at(key, now); c.selects(s.watch, o) {
			at.has[key] = o
		}
		if at.has[key] != before.has[key] {
			changed = append(changed, key)
		}
		news.Back = news.Back || news.List && at.has[key].version < before.has[key].version && at.has[key].id != 0
	}
	news.Version = numbers[now+1]
	again, err := e.Observe(e.of(s.watch, w), news)
	if err != nil {
		return err
	}
	for _, key := range again.Keys {
		changed = append(changed, key.Name[0]-'0')
	}
	if again.Restored {
		changed = []uint8{0, 1}
	}
	w.noticed = news.List && (now < before.position || news.Back)
	err = w.decide(c, e, changed, again.Restored)
	for key := range w.shown {
		held, behind := false, false
		for _, at := range w.watches {
			held = held || at.has[key] == w.shown[key].object
			behind = behind || at.has[key].id != 0 && w.isLost(at.has[key])
		}
		w.doomed[key] = w.doomed[key] || w.noticed && !held
		w.doubtful[key] = w.doubtful[key] || w.noticed && behind
	}
	w.noticed = false
	return err
}

// canonical returns the world without the changes of the past that make no difference any more: all
// watches are beyond them, no restore reaches back to them, and later ones have replaced them.
func (w world) canonical() world {
	past := max(w.length, furthest) - furthest
	if w.restored {
		past = w.length
	}
	for _, at := range w.watches {
		if at.on && at.synced && !at.lost {
			past = min(past, at.position)
		}
	}
	var later [maxKeys]bool
	for n := int(past) - 1; n >= 0; n-- {
		c := &w.log[n]
		if replaced := later[c.key]; replaced && c.object != w.shown[c.key].object {
			*c = change{}
		} else {
			later[c.key] = true
		}
	}
	return w
}

// mirrored returns the world with both selectors exchanged.
func (w world) mirrored() world {
	w.watches[first], w.watches[second] = w.watches[second], w.watches[first]
	for n := range w.watches {
		for key := range w.watches[n].has {
			w.watches[n].has[key] = w.watches[n].has[key].mirrored()
		}
	}
	for n := range w.log {
		w.log[n].object = w.log[n].object.mirrored()
	}
	for key := range w.now {
		w.now[key], w.shown[key].object = w.now[key].mirrored(), w.shown[key].object.mirrored()
		w.open[key].object = w.open[key].object.mirrored()
	}
	return w
}

func (o object) mirrored() object {
	if o.label != noLabel {
		o.label = firstLabel + secondLabel - o.label
	}
	return o
}

// of returns a watch of the engine.
func (e *Engine) of(n int, w *world) *Watch {
	switch {
	case n == metadata:
		return e.metadata
	case n == second && w.watches[first].on:
		return e.owned[1]
	}
	return e.owned[0]
}

// engine returns an engine with the state of the world.
func (w *world) engine(c config) *Engine {
	e := New()
	for n, at := range w.watches {
		if !at.on {
			continue
		}
		of := e.metadata
		if n != metadata {
			of = e.Add(selectors[c.overlap][n])
		}
		if of.synced = at.synced; at.synced {
			of.version = numbers[at.position+1]
		}
	}
	for key, o := range w.open {
		if o.object.id != 0 {
			e.open[keys[key]] = shown{o.object.ref(), o.whole}
		}
	}
	return e
}

// ref returns the version of a state. The empty history has version 1.
func (o object) ref() store.Version {
	if o.id == 0 {
		return store.Version{}
	}
	return store.Version{UID: types.UID(numbers[o.uid]), ResourceVersion: numbers[o.version+1]}
}

// facts returns the facts of a key, and the newest state of the owned watches.
func (w *world) facts(key uint8) (f Facts, newest object) {
	for _, at := range w.watches[first:] {
		if has := at.has[key]; has.id != 0 && Newest(has.ref(), newest.ref()) {
			newest = has
		}
	}
	m := w.watches[metadata].has[key]
	return Facts{Shown: w.shown[key].object.ref(), Metadata: m.ref(), Labels: sets[m.label], Owned: newest.ref()}, newest
}

// decide shows what the engine decides for some keys.
func (w *world) decide(c config, e *Engine, changed []uint8, restored bool) error {
	for _, key := range changed {
		f, newest := w.facts(key)
		f.Lost = restored
		before := w.shown[key]
		noticed := w.noticed || w.doomed[key] || w.doubtful[key]
		switch e.Decide(keys[key], f) {
		case ShowOwned:
			w.shown[key] = display{newest, true}
		case ShowMetadata:
			w.shown[key] = display{w.watches[metadata].has[key], false}
		case Remove:
			w.shown[key] = display{}
		}
		s := e.open[keys[key]]
		w.open[key] = display{}
		if has(s.version) {
			w.open[key] = display{w.shown[key].object, s.lost}
		}
		if w.shown[key] != before {
			w.doomed[key], w.doubtful[key] = false, false
		}
		if err := w.checkShown(c, key, before, noticed); err != nil {
			return err
		}
	}
	return nil
}

// isLost reports whether the history of the server lacks a state.
func (w *world) isLost(o object) bool {
	for _, c := range w.log[:w.length] {
		if c.object == o {
			return false
		}
	}
	return true
}

// owned reports whether a selector with a list selects a state.
func (w *world) owned(c config, o object) bool {
	return w.watches[first].synced && c.selects(first, o) || w.watches[second].synced && c.selects(second, o)
}

// checkShown checks a change of what is shown.
func (w *world) checkShown(c config, key uint8, before display, restored bool) error {
	m, was, is := w.watches[metadata], before.object, w.shown[key].object
	passed := restored || w.isLost(was) || m.synced && m.position >= was.version
	switch {
	case is.id != 0 && is.uid != was.uid && !m.lost && m.position >= is.version && m.has[key].uid != is.uid:
		return fmt.Errorf("key %d: a deleted UID %d appears", key, is.uid)
	case is.id != 0 && !w.shown[key].whole && before != w.shown[key] && w.owned(c, is):
		return fmt.Errorf("key %d: an owned object is shown without its data", key)
	case was.id == 0:
	case is.uid == was.uid && is.version < was.version && !restored && !w.isLost(was):
		return fmt.Errorf("key %d: version %d is replaced by version %d", key, was.version, is.version)
	case is.uid == was.uid:
	case !passed:
		return fmt.Errorf("key %d: UID %d leaves, but the metadata has not passed version %d", key, was.uid, was.version)
	case m.has[key].uid == was.uid && !w.isLost(was):
		return fmt.Errorf("key %d: UID %d leaves, but the metadata has it", key, was.uid)
	}
	return nil
}

// check checks a state.
func (w *world) check(c config) error {
	current, lost := true, false
	for n, at := range w.watches {
		_, more := w.next(c, n)
		if n == metadata {
			current = at.synced
		}
		current = current && !at.lost && (!at.synced || !more)
		lost = lost || at.lost
	}
	e := w.engine(c)
	for key := range uint8(c.keys) {
		shown, now := w.shown[key], w.now[key]
		// A restore that no list shows ends when the metadata passes what was shown.
		hidden := w.isLost(shown.object) && shown.object.version > w.length && !w.doomed[key]
		if current && !hidden && (shown.object != now || now.id != 0 && shown.whole != w.owned(c, now)) {
			return fmt.Errorf("key %d: the watches are current, but %v is shown instead of %v", key, shown, now)
		}
		if lost || shown.object.id != 0 && w.isLost(shown.object) {
			continue
		}
		f, newest := w.facts(key)
		m := w.watches[metadata]
		if has := m.has[key]; has.version > newest.version && !w.owned(c, has) && has.uid == shown.object.uid && shown.object.version < has.version {
			return fmt.Errorf("key %d: %v is shown, although the metadata has %v, which is not owned", key, shown, has)
		}
		for version := uint8(1); version <= w.length; version++ {
			if !e.Reached(keys[key], numbers[version+1], f) {
				if current && !w.awaits(c, now) && w.changed(key, version) {
					return fmt.Errorf("key %d: the watches are current, but a wait for version %d goes on", key, version)
				}
				continue
			}
			switch {
			case shown.object.id == 0 && m.position >= version && w.at(key, m.position).id == 0:
			case shown.object.id != 0 && shown.object.version >= version && (shown.whole || !w.awaits(c, m.has[key])):
			case shown.object.id != 0 && shown.object.version >= version:
				return fmt.Errorf("key %d: a wait for version %d ends before the data of a new selector arrive", key, version)
			default:
				return fmt.Errorf("key %d: a wait for version %d ends, but %v is shown", key, version, shown)
			}
		}
	}
	return nil
}

// changed reports whether an object changed at a version or later.
func (w *world) changed(key, version uint8) bool {
	for _, c := range w.log[version-1 : w.length] {
		if c.key == key {
			return true
		}
	}
	return false
}

// awaits reports whether a selector without a list selects a state.
func (w *world) awaits(c config, o object) bool {
	for n := first; n < watches; n++ {
		if w.watches[n].on && !w.watches[n].synced && c.selects(n, o) {
			return true
		}
	}
	return false
}

func (w *world) describe(c config) string {
	var b strings.Builder
	for key := range c.keys {
		fmt.Fprintf(&b, "server %v, shown %v open %v", w.now[key], w.shown[key], w.open[key])
		for _, at := range w.watches {
			fmt.Fprintf(&b, ", %v at %d synced %v lost %v", at.has[key], at.position, at.synced, at.lost)
		}
		b.WriteString("; ")
	}
	return b.String()
}
