package mapper

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/kubereflector/kubereflector/internal/restguard"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// config returns a copy of a config. The requests of its clients end with the context of the
// mapper's caller: the discovery clients of client-go 0.36 take no context.
func (m *Mapper) config(config *rest.Config) *rest.Config {
	own := restguard.Config(config)
	own.Wrap(func(to http.RoundTripper) http.RoundTripper { return transport{to, m} })
	return own
}

type transport struct {
	http.RoundTripper
	mapper *Mapper
}

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	caller := t.mapper.caller.Load()
	if caller == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(*caller, func() { cancel(context.Cause(*caller)) })
	end := func() { stop(); cancel(nil) }
	response, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		t.mapper.note(response)
	}
	response.Body = &body{ReadCloser: response.Body, end: sync.OnceFunc(end)}
	return response, nil
}

// body releases the context of its request when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// refusal is a request that the server refused.
type refusal struct {
	path string
	err  *apierrors.StatusError
}

// note keeps the Status of a refused request. client-go's discovery client drops the message, which
// says what the server forbids, or why it cannot answer.
func (m *Mapper) note(response *http.Response) {
	data, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(data))
	var status metav1.Status
	if err != nil || json.Unmarshal(data, &status) != nil || status.Kind != "Status" {
		return
	}
	status.Message = cut(status.Message)
	m.refused.Store(&refusal{response.Request.URL.Path, &apierrors.StatusError{ErrStatus: status}})
}
