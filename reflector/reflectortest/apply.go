package reflectortest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// apply is server-side apply: it creates the object, or merges the request into it.
func (c *call) apply() error {
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(c.body, &applied.Object); err != nil {
		return apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	rec, created, err := c.applyObject(applied)
	if err != nil {
		return err
	}
	if created {
		return c.answer(http.StatusCreated, rec)
	}
	return c.answer(http.StatusOK, rec)
}

// applyObject begins again if another client creates or deletes the object while a hook of WithAdmission
// runs.
func (c *call) applyObject(applied *unstructured.Unstructured) (rec *record, created bool, err error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	exists := func() bool {
		_, ok := c.resource.history.current.Get(c.resource.key(c.Namespace, c.Name))
		return ok
	}
	for {
		before := exists()
		rec, created, err = c.applyLocked(applied, before || c.Subresource != "")
		raced := apierrors.IsAlreadyExists(err) && !before || apierrors.IsNotFound(err) && before && c.Subresource == ""
		if !raced || exists() == before {
			return rec, created, err
		}
	}
}

// applyLocked merges the request into the object, or creates it. It needs mu.
func (c *call) applyLocked(applied *unstructured.Unstructured, exists bool) (rec *record, created bool, err error) {
	s, res := c.server, c.resource
	if exists {
		rec, err := s.updateLocked(res, c.Namespace, c.Name, c.writing(true), func(prior *record) (object, error) {
			live, err := s.trackedLocked(res, prior)
			if err != nil {
				return nil, err
			}
			return c.merge(live, applied)
		})
		return rec, false, err
	}
	obj, err := c.merge(res.emptyUnstructured(), applied)
	if err != nil {
		return nil, false, err
	}
	if uid := obj.GetUID(); uid != "" {
		return nil, false, apierrors.NewConflict(res.gr(), c.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := checkName(obj, c.Name); err != nil {
		return nil, false, err
	}
	obj.SetResourceVersion("") // the real server ignores the one of the request
	res.clearStatus(obj)
	rec, err = s.createLocked(res, c.Namespace, obj, c.writing(true))
	return rec, true, err
}

// merge applies a configuration to the live object, which is empty before a creation.
func (c *call) merge(live, applied *unstructured.Unstructured) (object, error) {
	manager, err := c.resource.fieldManager(c.Subresource)
	if err != nil {
		return nil, err
	}
	config, err := c.resource.settable(applied, c.Subresource)
	if err != nil {
		return nil, err
	}
	merged, err := manager.Apply(live, config, c.Query.Get("fieldManager"), boolParam(c.Query, "force"))
	if err != nil {
		return nil, err
	}
	if c.Query.Get("fieldValidation") == metav1.FieldValidationStrict {
		if err := yaml.UnmarshalStrict(c.body, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest("error strict decoding YAML: " + err.Error())
		}
	}
	body, err := merged.(*unstructured.Unstructured).MarshalJSON()
	if err != nil {
		return nil, err
	}
	return c.resource.decodeFields(body, false)
}

// checkWriteOptions reads and checks the query of a write as the real server does.
func (c *call) checkWriteOptions() error {
	var (
		kind   string
		errs   field.ErrorList
		dryRun []string
		err    error
	)
	switch c.Verb {
	case "create":
		var o metav1.CreateOptions
		err = metav1.Convert_url_Values_To_v1_CreateOptions(&c.Query, &o, nil)
		kind, errs, dryRun = "CreateOptions", metavalidation.ValidateCreateOptions(&o), o.DryRun
	case "update":
		var o metav1.UpdateOptions
		err = metav1.Convert_url_Values_To_v1_UpdateOptions(&c.Query, &o, nil)
		kind, errs, dryRun = "UpdateOptions", metavalidation.ValidateUpdateOptions(&o), o.DryRun
	case "patch":
		var o metav1.PatchOptions
		err = metav1.Convert_url_Values_To_v1_PatchOptions(&c.Query, &o, nil)
		kind, errs, dryRun = "PatchOptions", metavalidation.ValidatePatchOptions(&o, patchType(c.http)), o.DryRun
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	c.dryRun = len(dryRun) > 0
	return nil
}

// applies reports whether the request is a server-side apply.
func (c *call) applies() bool {
	return c.Verb == "patch" && patchType(c.http) == types.ApplyYAMLPatchType
}

// manager is the name of the request's field manager: the parameter, or the part of the user agent
// before the first slash.
func (c *call) manager() string {
	if name := c.Query.Get("fieldManager"); name != "" {
		return name
	}
	agent, _, _ := strings.Cut(c.http.UserAgent(), "/")
	var name strings.Builder
	for _, r := range agent {
		if name.Len()+utf8.RuneLen(r) > metavalidation.FieldManagerMaxLength {
			break
		}
		if unicode.IsPrint(r) {
			name.WriteRune(r)
		}
	}
	return name.String()
}
