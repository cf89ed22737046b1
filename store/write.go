package store

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// step is a commit that is about to be made.
type step[T any] struct {
	origin  Origin
	initial bool
	left    bool // what is deleted goes on to exist
	edits   []edit[T]

	// resourceVersion is where the commit leads to, and seen how far it tells of
	// everything, what is lacking included.
	resourceVersion string
	seen            string
	replaced        bool
	// lowered is true if the listing is older than what was seen before. Then the
	// version of before is of a history that is lost: the commit has that of the
	// listing, or none as long as something of it is lacking.
	lowered bool

	made bool // the edits belong to the cache
}

// edit is what a commit does under one key: new is put there, or what is there
// is taken out. final is the state in which it was deleted, where that was
// reported. old is what made room, known once the edit was made. An edit that
// has neither old nor new did nothing.
type edit[T any] struct {
	key             Key
	old, new, final *entry[T]
	left            bool // what is taken out goes on to exist
}

// scratch is memory that one commit leaves to the next. Guarded by Cache.writer.
type scratch[T any] struct {
	edits  []edit[T]
	terms  []*term
	commit Commit[T]
}

// maxScratch bounds what is kept.
const maxScratch = 1024

// identify derives the key and the version of an object, and what can be had of
// them if there is an error.
func identify[T any](keyOf KeyFunc[T], versioned bool, object T) (key Key, version Version, err error) {
	defer func() {
		// A nil object that has no key panics when asked for its version; the
		// first error says more than the panic.
		if value := recover(); value != nil && err == nil {
			key, version, err = Key{}, knownVersion(object), recovered(value)
		}
	}()
	if keyOf == nil {
		err = ErrNoKeyFunc
	} else if key, err = keyOf(object); err == nil && key == (Key{}) {
		err = ErrNoName
	}
	if err != nil {
		key = Key{}
	}
	if versioned {
		version = versionOf(object)
	}
	return key, version, err
}

// identify derives the key that an object has in the cache, and its version.
func (p *Partition[T]) identify(object T) (Key, Version, error) {
	key, version, err := identify(p.of.keyOf, p.of.versioned, object)
	if err == nil {
		key, err = p.place(key)
	}
	return key, version, err
}

// recognise is identify for an object of which something was told.
func (p *Partition[T]) recognise(object T, told Identity) (Key, Version, error) {
	key, version, err := p.identify(object)
	if placed, misplaced := p.place(told.Key); misplaced == nil {
		told.Key = placed
	}
	return told.check(key, version, err)
}

// apply makes writes in one commit.
func (p *Partition[T]) apply(writes []Write[T]) error {
	c := p.of
	c.writer.Lock()
	defer c.writer.Unlock()
	if p.dropped {
		return p.droppedError()
	}
	s := step[T]{origin: Watch, resourceVersion: p.resourceVersion, edits: c.scratch.edits[:0]}
	defer c.abandon(&s)
	var rejections []Rejection
	c.budget.begin()
	for i := range writes {
		w := &writes[i]
		if r := p.stage(&s, w); r != nil {
			rejections = append(rejections, *r)
		}
	}
	if len(s.edits) > 0 || s.resourceVersion != p.resourceVersion || s.seen != "" && s.seen != p.resourceVersion {
		c.commit(p, &s)
	}
	return rejectedError(rejections)
}

// stage adds a write to a step, or says why it cannot be made.
func (p *Partition[T]) stage(s *step[T], w *Write[T]) *Rejection {
	switch w.Type {
	case WriteAdd, WriteUpdate:
		key, version, err := p.recognise(w.Object, Identity{w.Key, w.Version})
		var e *entry[T]
		if err == nil {
			err = p.own(key, version)
		}
		if err == nil && p.outdated(key, version) {
			p.moved(s, key, version.ResourceVersion)
			return nil
		}
		if err == nil {
			e, err = p.of.afford(key, w)
		}
		if err != nil {
			p.lack(key, version)
			return &Rejection{Key: key, Version: version, Err: err}
		}
		s.edits = append(s.edits, edit[T]{key: key, new: e})
		p.moved(s, key, version.ResourceVersion)
	case WriteDelete:
		return p.stageDelete(s, w)
	case WriteDeleteKey:
		key, err := p.place(w.Key)
		if err == nil {
			err = p.own(key, Version{})
		}
		if err != nil {
			return &Rejection{Key: w.Key, Err: err}
		}
		p.remove(s, edit[T]{key: key, left: w.Left}, w.Version.ResourceVersion)
	case WriteBookmark:
		p.moved(s, Key{}, w.Version.ResourceVersion)
	case WriteLack:
		r := w.rejection()
		if key, err := p.place(r.Key); err == nil {
			r.Key = key
		}
		if foreign := p.own(r.Key, r.Version); foreign != nil {
			r.Err = errors.Join(foreign, r.Err)
		}
		p.lack(r.Key, r.Version)
		return &r
	default:
		return &Rejection{Key: w.Key, Err: ErrNoWrite}
	}
	return nil
}

// afford prepares the entry of a write, if the budget allows it.
func (c *Cache[T]) afford(key Key, w *Write[T]) (*entry[T], error) {
	e, err := c.prepare(key, w.Object, w.Version)
	if err != nil || c.budget == nil {
		return e, err
	}
	admitted := false
	defer func() {
		if !admitted { // or the size function ended the goroutine
			c.release(e.terms())
		}
	}()
	if err := c.budget.admit(c, key, w.Object); err != nil {
		return nil, err
	}
	admitted = true
	return e, nil
}

// abandon gives back what a step would have put, if a user's function ended the goroutine before
// the commit.
func (c *Cache[T]) abandon(s *step[T]) {
	if s.made {
		return
	}
	for i := range s.edits {
		if e := s.edits[i].new; e != nil {
			c.release(e.terms())
		}
	}
	clear(s.edits)
}

// stageDelete is stage for a Delete.
func (p *Partition[T]) stageDelete(s *step[T], w *Write[T]) *Rejection {
	key, version, err := p.recognise(w.Object, Identity{w.Key, w.Version})
	foreign := p.own(key, version)
	if foreign != nil {
		err = foreign // the key would be enough, if it were one of these
	}
	if err != nil {
		if w.Key == (Key{}) || foreign != nil {
			p.lack(key, version)
			return &Rejection{Key: key, Version: version, Err: err}
		}
		// The last state is bad, but the key is enough.
		p.remove(s, edit[T]{key: key, left: w.Left}, version.ResourceVersion)
		return nil
	}
	final := &entry[T]{object: w.Object}
	if w.Version != (Version{}) {
		told := w.Version
		final.version = &told
	}
	p.remove(s, edit[T]{key: key, final: final, left: w.Left}, version.ResourceVersion)
	return nil
}

// moved notes that the partition has heard of everything up to a resource
// version, if that is known, and of a key, if there is one.
func (p *Partition[T]) moved(s *step[T], key Key, resourceVersion string) {
	if key != (Key{}) {
		p.found(key)
	}
	if !p.complete || resourceVersion == "" {
		return
	}
	s.seen = resourceVersion
	if !p.lacking.any() {
		s.resourceVersion = resourceVersion
	}
}

// replace makes a listing what the partition holds. If it was staged, staged has what was
// prepared of its objects.
func (p *Partition[T]) replace(l Listing[T], staged *cacheStage[T]) error {
	c := p.of
	c.writer.Lock()
	defer c.writer.Unlock()
	defer staged.endLocked()
	if p.dropped {
		return p.droppedError()
	}
	if p == c.whole && len(c.partitions) > 0 {
		return &ScopeError{Scope: p.Scope(), Err: ErrOverlap}
	}
	r := replacement[T]{
		of:         p,
		listed:     make(map[Key]int, len(l.Objects)+len(l.Unchanged)),
		rejections: make([]Rejection, 0, len(l.Lacking)),
	}
	defer func() { c.abandon(&step[T]{edits: r.edits}) }()
	// Of what is said of one key, the last counts. What cannot be had is last, so
	// that the resource version stays before it in any case.
	for _, key := range l.Unchanged {
		r.unchanged(key)
	}
	for i, object := range l.Objects {
		r.object(object, l.identity(i), func() *entry[T] { return staged.take(i) })
	}
	for _, rejection := range l.Lacking {
		if key, err := p.place(rejection.Key); err == nil {
			rejection.Key = key
		}
		r.reject(rejection)
	}
	gone := r.deletions()
	r.afford(gone)
	s := step[T]{
		origin:          List,
		initial:         !p.complete,
		edits:           append(gone, r.edits...),
		resourceVersion: l.ResourceVersion,
		seen:            l.ResourceVersion,
		replaced:        true,
		lowered:         lower(l.ResourceVersion, p.resourceVersion),
	}
	r.edits = nil // they are the step's
	c.mu.Lock()
	p.lacking = r.missing
	c.mu.Unlock()
	if p.lacking.any() {
		s.resourceVersion = p.resourceVersion
		if s.lowered {
			s.resourceVersion = ""
		}
	}
	c.commit(p, &s)
	return rejectedError(r.standing())
}

// replacement is what a listing means for what is held.
type replacement[T any] struct {
	of *Partition[T]
	// listed has the place of an edit for each key, or -1 if what is held there
	// stays.
	listed     map[Key]int
	edits      []edit[T]
	rejections []Rejection
	missing    lacking
	kept       map[types.UID]bool // of rejected objects without a key
}

func (r *replacement[T]) reject(rejection Rejection) {
	r.rejections = append(r.rejections, rejection)
	if r.of.own(rejection.Key, rejection.Version) == nil {
		r.missing.add(rejection.Key)
	}
	r.withdraw(rejection.Key)
	if rejection.Key == (Key{}) && rejection.Version.UID != "" {
		if r.kept == nil {
			r.kept = make(map[types.UID]bool)
		}
		r.kept[rejection.Version.UID] = true
	}
}

// standing returns the last rejection of each key of which nothing was stored after
// it, and all of those without a key.
func (r *replacement[T]) standing() []Rejection {
	seen := make(map[Key]bool)
	all := slices.Clone(r.rejections)
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(rejection Rejection) bool {
		key := rejection.Key
		stored := r.of.own(key, rejection.Version) == nil && !r.missing.keys[key]
		superseded := key != (Key{}) && (seen[key] || stored)
		seen[key] = true
		return superseded
	})
	slices.Reverse(all)
	return all
}

// withdraw takes back the edit of a key, so that what is held there stays.
func (r *replacement[T]) withdraw(key Key) {
	if at, listed := r.listed[key]; listed && at >= 0 {
		r.of.of.release(r.edits[at].new.terms())
		r.edits[at] = edit[T]{}
		r.listed[key] = -1
	}
}

func (r *replacement[T]) unchanged(key Key) {
	key, err := r.of.place(key)
	if err == nil {
		_, held := r.of.of.table.get(key)
		if _, displaced := r.of.displaced[key]; !held && !displaced {
			err = ErrNotHeld
		}
	}
	if err != nil {
		r.reject(Rejection{Key: key, Err: err})
		return
	}
	r.listed[key] = -1
}

func (r *replacement[T]) object(object T, told Identity, prepared func() *entry[T]) {
	c := r.of.of
	key, version, err := r.of.recognise(object, told)
	if err == nil {
		err = r.of.own(key, version)
	}
	if err != nil {
		r.reject(Rejection{Key: key, Version: version, Err: err})
		return
	}
	if old, held := c.heldByWriter(key); held && old.Equal(version) || r.of.outdated(key, version) {
		r.withdraw(key)
		r.listed[key] = -1
		r.missing.remove(key)
		return
	}
	e := prepared()
	if e == nil {
		if e, err = c.prepare(key, object, told.Version); err != nil {
			r.reject(Rejection{Key: key, Version: version, Err: err})
			return
		}
	}
	r.missing.remove(key)
	if at, listed := r.listed[key]; listed && at >= 0 {
		c.release(r.edits[at].new.terms())
		r.edits[at].new = e
		return
	}
	r.listed[key] = len(r.edits)
	r.edits = append(r.edits, edit[T]{key: key, new: e})
}

// deletions returns the edits that take out what was not listed.
func (r *replacement[T]) deletions() []edit[T] {
	var gone []edit[T]
	for e := range r.of.held() {
		key := e.key()
		if _, listed := r.listed[key]; listed || r.missing.keys[key] || len(r.kept) > 0 && r.kept[e.known().UID] {
			continue
		}
		gone = append(gone, edit[T]{key: key})
	}
	return slices.Grow(gone, len(r.edits))
}
