package reflectortest

import (
	"encoding/json"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A patcher makes the JSON of the patched object from the JSON of the current one.
type patcher func(current []byte) ([]byte, error)

func (c *call) patch() error {
	if c.applies() {
		return c.apply()
	}
	apply, err := c.patcher()
	if err != nil {
		return err
	}
	rec, err := c.write(func(prior *record) (object, error) {
		patched, err := apply(encoding{}.appendObject(nil, prior.in(c.resource)))
		if err != nil {
			return nil, err
		}
		obj, err := c.resource.decodePatched(patched, c.Query.Get("fieldValidation") == metav1.FieldValidationStrict)
		if err != nil {
			return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
				field.Invalid(field.NewPath("patch"), string(patched), err.Error()),
			})
		}
		return obj, nil
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, rec)
}

func (res *resource) decodePatched(body []byte, strict bool) (object, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, err
	}
	if err := res.checkKind(kind); err != nil {
		return nil, err
	}
	return res.decodeFields(body, strict)
}

// patchType is the type of a request's patch, or empty.
func patchType(r *http.Request) types.PatchType {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return types.PatchType(media)
}

// patcher returns the patcher for the request's patch.
func (c *call) patcher() (patcher, error) {
	switch patchType(c.http) {
	case types.MergePatchType:
		return func(current []byte) ([]byte, error) {
			if err := json.Unmarshal(c.body, &map[string]any{}); err != nil {
				return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
			}
			patched, err := jsonpatch.MergePatch(current, c.body)
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return patched, nil
		}, nil
	case types.JSONPatchType:
		return func(current []byte) ([]byte, error) {
			operations, err := jsonpatch.DecodePatch(c.body)
			if err != nil {
				return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
			}
			patched, err := operations.Apply(current)
			if err != nil {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
			return patched, nil
		}, nil
	case types.StrategicMergePatchType:
		if !c.resource.typed { // the merge keys of its lists are unknown
			return nil, failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
				"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json")
		}
		return func(current []byte) ([]byte, error) {
			if err := json.Unmarshal(c.body, &map[string]any{}); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			patched, err := strategicpatch.StrategicMergePatch(current, c.body, c.resource.newObject())
			if err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
			return patched, nil
		}, nil
	default:
		return nil, errUnsupportedPatchType()
	}
}
