package wirebench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// floorLoop is the smallest program for the task: a list, a watch and a map.
type floorLoop struct {
	floorDecoder
	url  string
	pods map[string]*corev1.Pod
}

// floorDecoder decodes the bodies of a list and of a watch, and calls put for each pod.
type floorDecoder interface {
	format() apiserver.Format
	list(body io.Reader, put func(*corev1.Pod)) (version string, err error)
	watch(body io.Reader, put func(*corev1.Pod)) error
}

func floor(d floorDecoder) builder {
	return func(config *rest.Config, _ schema.GroupVersionResource) (*contender, error) {
		f := &floorLoop{d, config.Host + "/api/v1/pods", map[string]*corev1.Pod{}}
		return &contender{run: f.run}, nil
	}
}

func (f *floorLoop) run(ctx context.Context, handled func()) error {
	put := func(pod *corev1.Pod) {
		f.pods[pod.Namespace+"/"+pod.Name] = pod
		handled()
	}
	var version string
	err := f.get(ctx, f.url, func(body io.Reader) (err error) {
		version, err = f.list(body, put)
		return err
	})
	if err != nil {
		return err
	}
	err = f.get(ctx, f.url+"?watch=true&resourceVersion="+version, func(body io.Reader) error { return f.watch(body, put) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *floorLoop) get(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", string(f.format()))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return read(response.Body)
}

// floorJSON uses the same JSON library as ours.
type floorJSON struct{}

func (floorJSON) format() apiserver.Format { return apiserver.InJSON }

// Neither side looks for repeated names.
var floorOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true))

func (floorJSON) list(body io.Reader, put func(*corev1.Pod)) (string, error) {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []*corev1.Pod `json:"items"`
	}
	err := json.UnmarshalRead(body, &list, floorOptions)
	for _, pod := range list.Items {
		put(pod)
	}
	return list.Metadata.ResourceVersion, err
}

func (floorJSON) watch(body io.Reader, put func(*corev1.Pod)) error {
	d := jsontext.NewDecoder(body, floorOptions)
	for {
		var event struct {
			Type   string      `json:"type"`
			Object *corev1.Pod `json:"object"`
		}
		if err := json.UnmarshalDecode(d, &event); err != nil {
			return err
		}
		put(event.Object)
	}
}

// floorProtobuf uses the generated methods.
type floorProtobuf struct{}

func (floorProtobuf) format() apiserver.Format { return apiserver.InProtobuf }

func (floorProtobuf) list(body io.Reader, put func(*corev1.Pod)) (string, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	var list corev1.PodList
	err = unwrap(data, &list)
	for i := range list.Items {
		put(&list.Items[i])
	}
	return list.ResourceVersion, err
}

func (floorProtobuf) watch(body io.Reader, put func(*corev1.Pod)) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var size [4]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if cap(frame) < n {
			frame = make([]byte, 2*n)
		}
		if _, err := io.ReadFull(r, frame[:n]); err != nil {
			return err
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame[:n]); err != nil {
			return err
		}
		pod := new(corev1.Pod)
		if err := unwrap(event.Object.Raw, pod); err != nil {
			return err
		}
		put(pod)
	}
}

// unwrap decodes the content of a runtime.Unknown.
func unwrap(data []byte, into interface{ Unmarshal([]byte) error }) error {
	content, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return fmt.Errorf("no protobuf of an API server: it begins with %q", data[:min(len(data), 40)])
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(content); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}
