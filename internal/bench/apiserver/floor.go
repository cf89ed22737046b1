package apiserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Floor is the smallest program for the task: a list, a watch and a map, and nothing else.
type Floor struct {
	decoder floorDecoder
	url     string
	pods    map[string]*corev1.Pod
}

// floorDecoder decodes the bodies of a list and of a watch, and calls put for each pod. A list returns its resource version.
type floorDecoder interface {
	accept() Format
	list(body io.Reader, put func(*corev1.Pod)) (version string, err error)
	watch(body io.Reader, put func(*corev1.Pod)) error
}

// NewFloor makes the smallest program for pods of a server.
func NewFloor(host string, f Format) *Floor {
	decoder := map[Format]floorDecoder{InJSON: floorJSON{}, InProtobuf: floorProtobuf{}}[f]
	return &Floor{decoder, host + path(podResource), map[string]*corev1.Pod{}}
}

// Run lists and watches until ctx ends. It calls handled for each object.
func (f *Floor) Run(ctx context.Context, handled func()) error {
	put := func(pod *corev1.Pod) {
		f.pods[pod.Namespace+"/"+pod.Name] = pod
		handled()
	}
	var version string
	err := f.get(ctx, f.url, func(body io.Reader) (err error) {
		version, err = f.decoder.list(body, put)
		return err
	})
	if err != nil {
		return err
	}
	err = f.get(ctx, f.url+"?watch=true&resourceVersion="+version, func(body io.Reader) error { return f.decoder.watch(body, put) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *Floor) get(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", string(f.decoder.accept()))
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

// floorJSON is the JSON library that ours uses.
type floorJSON struct{}

func (floorJSON) accept() Format { return InJSON }

// Looking for repeated names costs something, and neither side does.
var floorOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true))

func (floorJSON) list(body io.Reader, put func(*corev1.Pod)) (string, error) {
	d := jsontext.NewDecoder(body, floorOptions)
	var version, name string
	for {
		token, err := d.ReadToken()
		if err != nil {
			if err == io.EOF {
				return version, nil
			}
			return "", err
		}
		kind, text := token.Kind(), ""
		if kind == jsontext.KindString {
			text = token.String()
		}
		switch {
		case kind == jsontext.KindBeginArray && name == "items":
			for d.PeekKind() != jsontext.KindEndArray {
				pod := new(corev1.Pod)
				if err := json.UnmarshalDecode(d, pod); err != nil {
					return "", err
				}
				put(pod)
			}
		case name == "resourceVersion":
			version = text
		}
		name = text
	}
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

// floorProtobuf is the generated methods.
type floorProtobuf struct{}

func (floorProtobuf) accept() Format { return InProtobuf }

func (floorProtobuf) list(body io.Reader, put func(*corev1.Pod)) (string, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	var list corev1.PodList
	if err := unwrap(data, &list); err != nil {
		return "", err
	}
	for i := range list.Items {
		put(&list.Items[i])
	}
	return list.ResourceVersion, nil
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
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return fmt.Errorf("no protobuf of an API server: it begins with %q", data[:min(len(data), 40)])
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(data[len(magic):]); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}
