package reflectortest

import (
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// links is the part of an object that the garbage collector reads. It is taken once, when the record
// is made, because a pass reads the links of all objects.
type links struct {
	owners   []owner
	deleting bool // has a deletionTimestamp

	foreground, orphan bool // has the finalizer
}

// owner is an owner reference.
type owner struct {
	kind   *kind  // nil if discovery does not always have it
	key    string // of the owner, if it is in the namespace of the dependent or in none
	named  *named // if kind is nil
	uid    string
	blocks bool // blockOwnerDeletion
}

// named is how a reference names an owner whose kind may come and go.
type named struct {
	reference reference
	name      string
}

// kind is a kind of the API in all of its versions, each of which is a collection of its own here.
// The versions of a followed definition have one collection, and only one of them is in versions.
type kind struct {
	namespaced bool
	versions   []*resource
}

// reference is how an owner reference names a kind.
type reference struct{ apiVersion, kind string }

// kinds finds the kinds that owner references can name. As for the real collector, these are the ones
// that discovery announces.
type kinds struct {
	byReference map[reference]*kind
	byGroupKind map[schema.GroupKind]*kind
}

func (k *kinds) add(r *resource) {
	all := k.byGroupKind[r.gvk().GroupKind()]
	if all == nil {
		all = &kind{namespaced: r.Namespaced}
		k.byGroupKind[r.gvk().GroupKind()] = all
	}
	all.versions = append(all.versions, r)
	if !r.unannounced {
		k.byReference[reference{r.apiVersion(), r.Kind}] = all
	}
}

// linksOf returns the links of an object, or nil if the collector can never have to do anything for it.
func (res *resource) linksOf(obj object) *links {
	refs := obj.GetOwnerReferences()
	l := &links{deleting: obj.GetDeletionTimestamp() != nil}
	if len(refs) == 0 && !l.deleting {
		return nil
	}
	finalizers := obj.GetFinalizers()
	l.foreground = slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	l.orphan = slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	if len(refs) == 0 && !l.foreground && !l.orphan && !res.isNamespaces() {
		return nil
	}
	l.owners = make([]owner, len(refs))
	for i, ref := range refs {
		o := owner{kind: res.kinds.byReference[reference{ref.APIVersion, ref.Kind}], uid: string(ref.UID), blocks: deref(ref.BlockOwnerDeletion, false)}
		if o.kind != nil {
			o.key = o.kind.versions[0].key(obj.GetNamespace(), ref.Name)
		} else {
			o.named = &named{reference{ref.APIVersion, ref.Kind}, ref.Name}
		}
		l.owners[i] = o
	}
	return l
}

// find returns the owner, or nil if there is none with the UID.
func (p *pass) find(o owner) *record {
	if o.kind == p.last.kind && o.key == p.last.key && o.uid == p.last.uid {
		return p.found
	}
	p.last, p.found = o, nil
	for _, r := range o.kind.versions {
		if rec, ok := r.history.current.Get(o.key); ok && rec.uid == o.uid {
			p.found = rec
		}
	}
	return p.found
}

// waits reports whether an object that is being deleted waits for its dependents' deletion.
func (rec *record) waits() bool {
	return rec.links != nil && rec.links.deleting && rec.links.foreground
}

// CollectGarbage makes one pass of Kubernetes' garbage collector over all stored objects, and reports
// whether it changed any. It is for a test or a simulation that drives the time itself; see
// WithGarbageCollection for a server that collects by itself. A pass also does the work of the
// namespace controller: it deletes what is in a deleted namespace, the pods first, and then the
// namespace.
//
// A pass decides by the state at its beginning, so it reaches the dependents of what it deletes only
// in the next one, as the real collector needs another event for them. Call it until it returns
// false for the final state. While nothing changes after a pass that changed nothing, a call costs a
// lock. A write that the server refuses is tried again after the next change.
func (s *Server) CollectGarbage() (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uncollected {
		s.uncollected = false // until the pass changes something
		s.collectLocked()
	}
	return s.uncollected
}

// runCollector makes the passes of WithGarbageCollection until the server is closed.
func (s *Server) runCollector() {
	for {
		select {
		case <-s.garbage: // a pass that changes something sends, too
		case <-s.closing:
			return
		}
		timer := time.NewTimer(s.options.collectLatency)
		select {
		case <-timer.C:
		case <-s.closing:
			timer.Stop()
			return
		}
		select {
		case <-s.garbage: // the changes during the wait are part of this pass
		default:
		}
		s.CollectGarbage()
	}
}

// pass is one pass of the collector.
type pass struct {
	server     *Server
	linked     []*record            // the objects with links
	dependents map[string][]*record // by the owner's UID; nil if no object waits for its dependents
	todo       []func()

	// found is the owner last, since dependents of one owner often follow each other.
	last  owner
	found *record
}

// collectLocked makes a pass. It needs mu.
func (s *Server) collectLocked() {
	p := pass{server: s, linked: s.linked[:0]}
	s.linked = nil // a hook of WithAdmission may start another pass during this one
	waiting := false
	for _, r := range s.registry().ordered {
		if r.uncollected || r.unannounced || r.secondary || r.history.current.Len() == 0 {
			continue
		}
		r.history.current.Scan(func(_ string, rec *record) bool {
			if rec.links != nil {
				p.linked = append(p.linked, rec)
				waiting = waiting || rec.links.deleting && (rec.links.foreground || rec.links.orphan)
			}
			return true
		})
	}
	if waiting {
		p.dependents = map[string][]*record{}
		for _, rec := range p.linked {
			for _, o := range rec.links.owners {
				p.dependents[o.uid] = append(p.dependents[o.uid], rec)
			}
		}
	}
	for _, rec := range p.linked {
		p.judge(rec)
	}
	for _, do := range p.todo {
		do()
	}
	clear(p.linked) // keep the memory for the next pass, but no old versions
	s.linked = p.linked
}

// judge decides what happens to an object.
func (p *pass) judge(rec *record) {
	l := rec.links
	if l.deleting && rec.resource.isNamespaces() {
		p.do(func() { p.emptyNamespace(rec) })
	}
	switch {
	case l.deleting && l.orphan:
		p.do(func() {
			for _, dependent := range p.dependents[rec.uid] {
				p.removeOwners(dependent, []string{rec.uid})
			}
			p.removeFinalizer(rec, metav1.FinalizerOrphanDependents)
		})
		return
	case rec.waits():
		if !slices.ContainsFunc(p.dependents[rec.uid], func(d *record) bool { return d.links.blocks(rec.uid) }) {
			p.do(func() { p.removeFinalizer(rec, metav1.FinalizerDeleteDependents) })
		}
		return
	case l.deleting:
		return // what follows from its end follows then
	}
	var solid, waiting bool
	var lost []string // the UIDs of the owners that are absent or waiting
	for _, o := range l.owners {
		if o.kind == nil {
			if o.kind = p.server.registry().owners[o.named.reference]; o.kind != nil {
				o.key = o.kind.versions[0].key(rec.namespace, o.named.name)
			}
		}
		if o.kind == nil || o.kind.namespaced && rec.namespace == "" {
			return // the real collector never finds such an owner, and so never calls it absent
		}
		switch found := p.find(o); {
		case found == nil:
			lost = append(lost, o.uid)
		case found.waits():
			waiting = true
			lost = append(lost, o.uid)
		default:
			solid = true
		}
	}
	switch dependents := p.dependents[rec.uid]; {
	case len(lost) == 0:
	case solid:
		p.do(func() { p.removeOwners(rec, lost) })
	case waiting && len(dependents) > 0:
		// A dependent that waits, too, may be part of a cycle, in which each object would wait for
		// the next one. The deletion then follows in the next pass.
		cycle := slices.ContainsFunc(dependents, (*record).waits)
		p.do(func() {
			if cycle {
				p.unblockOwners(rec)
			}
			p.delete(rec, metav1.DeletePropagationForeground)
		})
	case l.orphan:
		p.do(func() { p.delete(rec, metav1.DeletePropagationOrphan) })
	case l.foreground:
		p.do(func() { p.delete(rec, metav1.DeletePropagationForeground) })
	default:
		p.do(func() { p.delete(rec, metav1.DeletePropagationBackground) })
	}
}

func (p *pass) do(f func()) { p.todo = append(p.todo, f) }

// blocks reports whether the object blocks the deletion of an owner. As in the real collector, the
// UID alone decides, also if the owner is in another namespace.
func (l *links) blocks(uid string) bool {
	return slices.ContainsFunc(l.owners, func(o owner) bool { return o.uid == uid && o.blocks })
}

// delete deletes the object, unless this pass has changed it: its owners may be others now.
func (p *pass) delete(rec *record, policy metav1.DeletionPropagation) {
	options := &metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{
		UID: new(types.UID(rec.uid)), ResourceVersion: new(strconv.FormatUint(rec.version, 10)),
	}}
	_, _, _ = p.server.deleteLocked(rec.resource, rec.namespace, rec.name, options, false)
}

func (p *pass) removeOwners(rec *record, uids []string) {
	p.update(rec, func(obj object) {
		refs := slices.DeleteFunc(slices.Clone(obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return slices.Contains(uids, string(ref.UID)) })
		if len(refs) == 0 {
			refs = nil // an empty list would stay in an object that is not built in
		}
		obj.SetOwnerReferences(refs)
	})
}

// unblockOwners makes the object block no owner. The real collector sets blockOwnerDeletion in all
// references of a kind that is not built in, and else in those where it is true.
func (p *pass) unblockOwners(rec *record) {
	p.update(rec, func(obj object) {
		refs := slices.Clone(obj.GetOwnerReferences())
		for i, ref := range refs {
			if !rec.resource.typed || deref(ref.BlockOwnerDeletion, false) {
				refs[i].BlockOwnerDeletion = new(false)
			}
		}
		obj.SetOwnerReferences(refs)
	})
}

func (p *pass) removeFinalizer(rec *record, finalizer string) {
	p.update(rec, func(obj object) {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
	})
}

// update changes the object of a record, unless it is gone: another object may have its name.
func (p *pass) update(rec *record, change func(object)) {
	w := writing{parts: wholeButStatus, manager: "kube-controller-manager"}
	if !rec.resource.Status {
		w.parts = whole
	}
	_, _ = p.server.updateLocked(rec.resource, rec.namespace, rec.name, w, func(prior *record) (object, error) {
		if prior.uid != rec.uid {
			return nil, apierrors.NewNotFound(rec.resource.gr(), rec.name)
		}
		obj := prior.object()
		change(obj)
		return obj, nil
	})
}
