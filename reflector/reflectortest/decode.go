package reflectortest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// strictSerializer refuses unknown and repeated fields: fieldValidation=Strict.
var strictSerializer = serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{Strict: true})

// maxBody is the largest request body that the real server reads.
const maxBody = 3 << 20

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return b, err
}

// decodeObject reads an object from a request's body.
func (res *resource) decodeObject(contentType string, body []byte, query url.Values) (object, error) {
	media, err := bodyMedia(contentType)
	if err != nil {
		return nil, err
	}
	if media == mediaProtobuf {
		if !res.typed {
			return nil, errUnsupportedMediaType()
		}
		return res.decodeProtobuf(body)
	}
	return res.decodeJSON(body, query.Get("fieldValidation") == metav1.FieldValidationStrict)
}

// bodyMedia is the media type of a body; none means JSON.
func bodyMedia(contentType string) (string, error) {
	if contentType == "" {
		return mediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || (media != mediaJSON && media != mediaProtobuf) {
		return "", errUnsupportedMediaType()
	}
	return media, nil
}

func (res *resource) decodeProtobuf(body []byte) (object, error) {
	var unknown runtime.Unknown
	rest, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return nil, res.unrecognized(errors.New("provided data does not appear to be a protobuf message"))
	}
	if err := unknown.Unmarshal(rest); err != nil {
		return nil, res.unrecognized(err)
	}
	if err := res.checkKind(metav1.TypeMeta{Kind: unknown.Kind, APIVersion: unknown.APIVersion}); err != nil {
		return nil, err
	}
	obj := res.newObject()
	if err := obj.(interface{ Unmarshal([]byte) error }).Unmarshal(unknown.Raw); err != nil {
		return nil, res.unhandled(err)
	}
	return obj, res.checkJSON(obj)
}

func (res *resource) decodeJSON(body []byte, strict bool) (object, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, res.unrecognized(fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	if !res.typed && kind.Kind == "" { // nothing else identifies the kind
		//lint:ignore ST1005 the real server's words
		return nil, res.unrecognized(fmt.Errorf("Object 'Kind' is missing in '%s'", body))
	}
	if err := res.checkKind(kind); err != nil {
		return nil, err
	}
	obj, err := res.decodeFields(body, strict)
	if err != nil {
		return nil, res.unhandled(err)
	}
	return obj, nil
}

// decodeFields decodes JSON of the right kind.
func (res *resource) decodeFields(body []byte, strict bool) (object, error) {
	obj := res.newObject()
	if !res.typed {
		content := map[string]any{}
		if err := utiljson.Unmarshal(body, &content); err != nil {
			return nil, err
		}
		// Refuse an object that no client could decode.
		if err := json.Unmarshal(body, &metav1.PartialObjectMetadata{}); err != nil {
			return nil, err
		}
		res.shape.fill(content)
		obj.(runtime.Unstructured).SetUnstructuredContent(content)
		obj.GetObjectKind().SetGroupVersionKind(res.gvk())
		return obj, nil
	}
	serializer := jsonSerializer
	if strict {
		serializer = strictSerializer
	}
	gvk := res.gvk()
	if _, _, err := serializer.Decode(body, &gvk, obj); err != nil {
		return nil, err
	}
	// The kind is in the envelope of every answer; storing it would repeat it.
	obj.GetObjectKind().SetGroupVersionKind(emptyKind)
	return obj, nil
}

// checkKind compares the kind in a body, if it has one, with the kind of the URL.
func (res *resource) checkKind(kind metav1.TypeMeta) error {
	if kind.Kind != "" && kind.Kind != res.Kind {
		if !res.typed {
			return apierrors.NewInvalid(schema.GroupKind{Group: res.Group, Kind: kind.Kind}, "", field.ErrorList{
				field.Invalid(field.NewPath("kind"), kind.Kind, "must be "+res.Kind),
			})
		}
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: the URL is for another kind", kind.Kind, kind.APIVersion, res.Kind))
	}
	if !res.typed && kind.APIVersion != res.apiVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", kind.APIVersion, res.apiVersion()))
	}
	if kind.APIVersion != "" && kind.APIVersion != res.apiVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme \"reflectortest\"",
			res.Kind, kind.APIVersion, res.Kind, res.Kind, kind.APIVersion))
	}
	return nil
}

func (res *resource) unrecognized(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v", res.Kind, err))
}

func (res *resource) unhandled(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", res.Kind, res.Version, res.Kind, err))
}

// decodeDeleteOptions reads a deletion's options from its body or, without one,
// from the query.
func decodeDeleteOptions(contentType string, body []byte, query url.Values) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(body) == 0 {
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, options, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return options, nil
	}
	media, err := bodyMedia(contentType)
	if err != nil {
		return nil, err
	}
	if media == mediaJSON {
		if err := json.Unmarshal(body, options); err != nil {
			return nil, apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
		}
		return options, nil
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := options.Unmarshal(unknown.Raw); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}
