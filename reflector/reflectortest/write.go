package reflectortest

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var emptyKind schema.GroupVersionKind

func (c *call) create() error {
	obj, err := c.resource.decodeObject(c.http.Header.Get("Content-Type"), c.body, c.Query)
	if err != nil {
		return err
	}
	c.resource.clearStatus(obj)
	rec, err := c.server.createObject(c.resource, c.Namespace, obj, c.writing(false))
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, rec)
}

func (c *call) update() error {
	obj, err := c.resource.decodeObject(c.http.Header.Get("Content-Type"), c.body, c.Query)
	if err != nil {
		return err
	}
	rec, err := c.write(func(prior *record) (object, error) { return obj, checkUID(prior, obj) })
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, rec)
}

// write replaces the object of the URL with the result of change.
func (c *call) write(change func(*record) (object, error)) (*record, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.updateLocked(c.resource, c.Namespace, c.Name, c.writing(false), change)
}

func (c *call) writing(applied bool) writing {
	w := writing{parts: wholeButStatus, subresource: c.Subresource, manager: c.manager(), applied: applied, dryRun: c.dryRun}
	switch {
	case c.Subresource == "status":
		w.parts = statusOnly
	case !c.resource.Status:
		w.parts = whole
	}
	return w
}

// parts says which parts of an object an update may change.
type parts int

const (
	whole parts = iota
	wholeButStatus
	statusOnly
)

// createObject stores a new object.
func (s *Server) createObject(res *resource, namespace string, obj object, w writing) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // deferred: net/http recovers from a panic, and the server goes on
	return s.createLocked(res, namespace, obj, w)
}

// mergeStringData moves a Secret's stringData, which is write-only, into its data.
func mergeStringData(obj object) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	for k, v := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[k] = []byte(v)
	}
	secret.StringData = nil
}

// dedupOwners removes owner references that are equal to an earlier one.
func dedupOwners(obj object) {
	refs := obj.GetOwnerReferences()
	var kept []metav1.OwnerReference
	for _, ref := range refs {
		if !slices.ContainsFunc(kept, func(other metav1.OwnerReference) bool { return reflect.DeepEqual(ref, other) }) {
			kept = append(kept, ref)
		}
	}
	if len(kept) < len(refs) {
		obj.SetOwnerReferences(kept)
	}
}

// createLocked stores a new object. It needs mu.
func (s *Server) createLocked(res *resource, namespace string, obj object, w writing) (*record, error) {
	if err := checkCreatable(res, obj); err != nil {
		return nil, err
	}
	if err := res.placeIn(namespace, obj); err != nil {
		return nil, err
	}
	if err := s.checkNamespaceLocked(res, obj); err != nil {
		return nil, err
	}
	if len(res.admissions) > 0 {
		if err := s.fillBuiltin(res, obj); err != nil {
			return nil, err
		}
		a := &admitted{operation: admissionv1.Create, resource: res, namespace: obj.GetNamespace(), name: obj.GetName(), dryRun: w.dryRun, object: obj}
		if err := s.admitLocked(a); err != nil {
			return nil, err
		}
		var err error
		if w.sent, err = a.sent(obj); err != nil {
			return nil, err
		}
		obj = a.object
	}
	dedupOwners(obj)
	addFinalizer(obj)
	if isReset(obj) {
		obj.SetManagedFields(nil)
	}
	if err := res.placeIn(namespace, obj); err != nil { // again: a hook may have changed it
		return nil, err
	}
	if err := checkCreatable(res, obj); err != nil { // and meanwhile the definition may have gone
		return nil, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		s.nameLocked(res, obj)
	}
	if err := s.fillBuiltin(res, obj); err != nil { // a Namespace has its name as a default
		return nil, err
	}
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetGeneration(0)
	if res.tracksGeneration {
		obj.SetGeneration(1)
	}
	countTemplates(obj, nil)
	if res.definitions {
		completeDefinition(obj)
	}
	if err := res.validate(obj, nil); err != nil {
		return nil, err
	}
	if version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil && version != 0 {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	obj.SetResourceVersion("")
	if other, ok := res.history.current.Get(res.key(obj.GetNamespace(), obj.GetName())); ok {
		err := apierrors.NewAlreadyExists(res.gr(), obj.GetName())
		if other.in(res).object().GetDeletionTimestamp() != nil {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return nil, err
	}
	if w.dryRun {
		obj.SetUID(uuid.NewUUID())
		return newRecord(res, obj, 0)
	}
	obj.SetUID(s.newUIDLocked(res, obj))
	return s.commitLocked(res, nil, obj, w.author(w.applied))
}

// newUIDLocked makes the UID of an object that is about to be stored. It needs mu.
func (s *Server) newUIDLocked(res *resource, obj object) types.UID {
	if s.created == nil {
		return uuid.NewUUID()
	}
	name := creationName(res, obj)
	s.created[name]++
	b := sha1.Sum(fmt.Appendf(nil, "%s %d", name, s.created[name]))
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80 // the version and the variant of RFC 9562
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// creationName is what creations are counted by.
func creationName(res *resource, obj object) string {
	return fmt.Sprintf("%s %q %q", res.gr(), obj.GetNamespace(), cmp.Or(obj.GetGenerateName(), obj.GetName()))
}

// fillBuiltin does to an object of a built-in kind what the real server does when it decodes it, before hooks see it
// and before managedFields: it moves a Secret's stringData, and sets the defaults if the server has the option.
func (s *Server) fillBuiltin(res *resource, obj object) error {
	mergeStringData(obj)
	if !s.options.defaults || !res.typed {
		return nil
	}
	return res.fillBuiltin(obj)
}

// placeIn sets or checks the namespace of an object in a request for a namespace, or clears that of an object
// without one.
func (res *resource) placeIn(namespace string, obj object) error {
	if !res.Namespaced {
		obj.SetNamespace("") // a template for many kinds may have set it
		return nil
	}
	switch obj.GetNamespace() {
	case namespace:
	case "":
		obj.SetNamespace(namespace)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// nameLocked makes an unused name: at most 58 letters of the prefix and five random ones, as in the
// real server, or with WithStableUIDs five that follow from the creations before.
func (s *Server) nameLocked(res *resource, obj object) {
	prefix := obj.GetGenerateName()
	prefix = prefix[:min(len(prefix), 58)]
	creation := creationName(res, obj)
	for try := 0; ; try++ {
		suffix := rand.String(5)
		if s.created != nil {
			b := sha1.Sum(fmt.Appendf(nil, "%s %d %d", creation, s.created[creation], try))
			suffix = rand.SafeEncodeString(fmt.Sprintf("%x", b)[:5])
		}
		obj.SetName(prefix + suffix)
		if _, taken := res.history.current.Get(res.key(obj.GetNamespace(), obj.GetName())); !taken {
			return
		}
	}
}

// updateLocked replaces an object. It needs mu.
func (s *Server) updateLocked(res *resource, namespace, name string, w writing, change func(*record) (object, error)) (*record, error) {
	prior, obj, err := s.changeLocked(res, namespace, name, &w, change)
	if err != nil {
		return nil, err
	}
	dedupOwners(obj)
	if err := res.checkUpdate(prior, namespace, name, obj); err != nil {
		return nil, err
	}
	old := prior.in(res).object()
	keepFinalizers(obj, old, w)
	reset := isReset(obj) && w.parts != statusOnly
	if reset {
		obj.SetManagedFields(nil)
	}
	switch w.parts {
	case statusOnly:
		changed := prior.in(res).object()
		res.copyStatus(changed, obj)
		if w.applied {
			changed.SetManagedFields(obj.GetManagedFields())
		}
		obj = changed
	case wholeButStatus:
		res.copyStatus(obj, old)
	}
	if err := res.prepareUpdate(obj, old); err != nil {
		return nil, err
	}
	tracked := prior.author.tracked || w.applied || reset
	if tracked && !reset {
		if err := res.trackUpdate(obj, old, prior, w); err != nil {
			return nil, err
		}
	}
	if deletable(obj, old) {
		if !w.dryRun {
			if _, err := s.removeLocked(res, prior); err != nil {
				return nil, err
			}
		}
		return newRecord(res, obj, prior.version)
	}
	return s.replaceLocked(res, prior, obj, w.author(tracked), w.dryRun)
}

// changeLocked returns the stored object and the new one that a write makes of it. The hooks of
// WithAdmission run without the lock, so it begins again if the stored object changed meanwhile. It
// sets w.sent, and needs mu.
func (s *Server) changeLocked(res *resource, namespace, name string, w *writing, change func(*record) (object, error)) (*record, object, error) {
	for {
		if err := res.checkServed(); err != nil {
			return nil, nil, err
		}
		prior, ok := res.history.current.Get(res.key(namespace, name))
		if !ok {
			return nil, nil, apierrors.NewNotFound(res.gr(), name)
		}
		obj, err := change(prior)
		if err == nil && w.parts != statusOnly {
			err = s.fillBuiltin(res, obj)
		}
		if err != nil || len(res.admissions) == 0 {
			return prior, obj, err
		}
		a := &admitted{
			operation: admissionv1.Update, resource: res, subresource: w.subresource, namespace: namespace, name: name, dryRun: w.dryRun,
			object: obj, old: prior.in(res).object(),
		}
		if err := s.admitLocked(a); err != nil {
			return nil, nil, err
		}
		if now, _ := res.history.current.Get(res.key(namespace, name)); now == prior {
			w.sent, err = a.sent(obj)
			return prior, a.object, err
		}
	}
}

// replaceLocked stores obj in place of prior. A write without a change makes no version. It needs
// mu.
func (s *Server) replaceLocked(res *resource, prior *record, obj object, a author, dryRun bool) (*record, error) {
	same, err := newRecord(res, obj, prior.version)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(same.stored, prior.stored) {
		return prior, nil // a write without a change makes no version
	}
	if dryRun {
		return same, nil
	}
	return s.commitLocked(res, prior, obj, a)
}

// checkUpdate compares the object of the request with the URL and with the stored object.
func (res *resource) checkUpdate(prior *record, namespace, name string, obj object) error {
	if err := checkName(obj, name); err != nil {
		return err
	}
	if err := res.placeIn(namespace, obj); err != nil {
		return err
	}
	var version uint64 // 0 is none, also in the request
	if sent := obj.GetResourceVersion(); sent != "" {
		var err error
		if version, err = strconv.ParseUint(sent, 10, 64); err != nil {
			return err
		}
	}
	switch {
	case version == 0 && res.versionRequired:
		kind := schema.GroupKind{Group: res.Group, Kind: res.Plural} // the real server also uses the resource in place of the kind
		return apierrors.NewInvalid(kind, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be specified for an update"),
		})
	case version != 0 && version != prior.version:
		return errObjectModified(res, name)
	}
	return nil
}

// checkName compares the name of an object with the name in the URL.
func checkName(obj object, name string) error {
	switch obj.GetName() {
	case name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
}

// checkUID treats the UID in an update as a precondition. A patch has none: there the UID is a
// field that cannot change.
func checkUID(prior *record, obj object) error {
	uid, res := string(obj.GetUID()), prior.resource
	if uid == "" || uid == prior.uid || obj.GetName() != prior.name {
		return nil
	}
	return apierrors.NewConflict(res.gr(), prior.name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s", res.Plural, prior.key, uid, prior.uid))
}

// prepareUpdate copies the fields that an update cannot change.
func (res *resource) prepareUpdate(obj, old object) error {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetSelfLink("")
	obj.SetResourceVersion(old.GetResourceVersion())
	if old.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if res.definitions {
		completeDefinition(obj)
	}
	if old.GetDeletionGracePeriodSeconds() != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	obj.SetGeneration(old.GetGeneration())
	if res.tracksGeneration && !res.sameSpec(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	countTemplates(obj, old)
	return res.validate(obj, old)
}

// validate checks the metadata of an object, and all of an Event. old is nil for a creation.
func (res *resource) validate(obj, old object) error {
	kind := res.gvk().GroupKind()
	errs := validateEvent(obj, old)
	if event, _ := coreEvent(obj); event != nil {
		kind.Group = "" // the real server names the core group for both groups of Events
	}
	errs = append(errs, res.validateMetadata(obj)...)
	if old == nil && res.longestName > 0 && len(obj.GetName()) > res.longestName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), fmt.Sprintf("must be no more than %d characters", res.longestName)))
	}
	if res.definitions {
		errs = append(errs, validateDefinition(obj, old)...)
	}
	if old != nil {
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind, obj.GetName(), errs)
	}
	return nil
}

// validateMetadata checks the metadata. A finalizer of a built-in kind must contain a domain of its
// owner.
func (res *resource) validateMetadata(obj object) field.ErrorList {
	at := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, res.Namespaced, res.names, at)
	for i, f := range obj.GetFinalizers() {
		standard := f == string(corev1.FinalizerKubernetes) || f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		if res.typed && !standard && !strings.Contains(f, "/") {
			errs = append(errs, field.Invalid(at.Child("finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// commitLocked stores obj at the next version of the server. It needs mu.
func (s *Server) commitLocked(res *resource, prior *record, obj object, a author) (*record, error) {
	rec, err := newRecord(res, obj, s.version+1)
	if err != nil {
		return nil, err
	}
	rec.author = a
	s.version++
	s.wakeLocked()
	res.history.append(&change{version: s.version, object: rec, prior: prior}, s.options.history)
	s.writtenLocked(res)
	return rec, nil
}

// removeLocked removes an object, and returns its last state at the version of the removal. It
// needs mu.
func (s *Server) removeLocked(res *resource, prior *record) (*record, error) {
	rec, err := newRecord(res, prior.object(), s.version+1)
	if err != nil {
		return nil, err
	}
	s.version++
	s.wakeLocked()
	res.history.append(&change{version: s.version, object: rec, prior: prior, deleted: true}, s.options.history)
	s.writtenLocked(res)
	return rec, nil
}
