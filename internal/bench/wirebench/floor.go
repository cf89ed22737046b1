package wirebench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// floor is the smallest program for a first list: a request, a decoder and a map.
func floor(f apiserver.Format, decode func(body io.Reader) ([]*corev1.Pod, error)) builder {
	return func(config *rest.Config, _ schema.GroupVersionResource) (*contender, error) {
		pods := map[string]*corev1.Pod{}
		return &contender{run: func(ctx context.Context, handled func()) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/pods", nil)
			if err != nil {
				return err
			}
			request.Header.Set("Accept", string(f))
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return errors.New(response.Status)
			}
			list, err := decode(response.Body)
			if err != nil {
				return err
			}
			for _, pod := range list {
				pods[pod.Namespace+"/"+pod.Name] = pod
				handled()
			}
			list = nil
			<-ctx.Done()
			clear(pods) // they are live until then
			return nil
		}}, nil
	}
}

// decodeJSON uses the same JSON library as ours. Neither side looks for repeated names.
func decodeJSON(body io.Reader) ([]*corev1.Pod, error) {
	var list struct {
		Items []*corev1.Pod `json:"items"`
	}
	err := json.UnmarshalRead(body, &list, jsontext.AllowDuplicateNames(true))
	return list.Items, err
}

// decodeProtobuf uses the generated methods.
func decodeProtobuf(body io.Reader) (pods []*corev1.Pod, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	content, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("no protobuf of an API server: it begins with %q", data[:min(len(data), 40)])
	}
	var unknown runtime.Unknown
	var list corev1.PodList
	if err := unknown.Unmarshal(content); err != nil {
		return nil, err
	}
	if err := list.Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}
