package missing

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPath(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	denied := apierrors.NewGenericServerResponse(http.StatusNotFound, "DELETE", things, "", "", 0, false)
	denied.ErrStatus.Message = `admission webhook "w" denied the request: no policy`
	for name, test := range map[string]struct {
		err          error
		path, denial bool
	}{
		"no route, as a Status": {apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false), true, false},
		"no route, as a text":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "DELETE", things, "a", "", 0, true), true, false},
		"no object":             {apierrors.NewNotFound(things, "a"), false, false},
		"of a program":          {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound}}, false, false},
		"of a webhook":          {denied, false, true},
		"another answer":        {apierrors.NewGenericServerResponse(http.StatusBadGateway, "DELETE", things, "", "", 0, true), false, false},
		"no answer":             {errors.New("refused"), false, false},
	} {
		assert.Equal(t, test.path, Path(fmt.Errorf("wrapped: %w", test.err)), name)
		assert.Equal(t, test.denial, Denial(fmt.Errorf("wrapped: %w", test.err)), name)
	}
}
