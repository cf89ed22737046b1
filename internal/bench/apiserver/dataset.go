package apiserver

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Format is a content type.
type Format string

// The formats in which the server has pods, Secrets and ConfigMaps. It has applications in JSON.
const (
	InJSON     Format = "application/json"
	InProtobuf Format = "application/vnd.kubernetes.protobuf"
)

// dataset is the objects of one resource.
type dataset struct {
	resource schema.GroupVersionResource
	build    func(objects int) (sets, error)
}

func core(resource string, build func(int) (sets, error)) dataset {
	return dataset{corev1.SchemeGroupVersion.WithResource(resource), build}
}

var datasets = map[string]dataset{
	// The two extremes: pods of Deployments with 20 replicas, and pods that have nothing in common.
	"pods":   core("pods", func(n int) (sets, error) { return encodeAll("Pod", objects.Pods(n, objects.Templated)) }),
	"unlike": core("pods", func(n int) (sets, error) { return encodeAll("Pod", objects.Pods(n, objects.Unlike)) }),
	// The objects of a cluster in the field.
	"field":      core("pods", func(n int) (sets, error) { return encodeAll("Pod", objects.Pods(n, objects.Field)) }),
	"secrets":    core("secrets", func(n int) (sets, error) { return encodeAll("Secret", objects.Secrets(n)) }),
	"configmaps": core("configmaps", func(n int) (sets, error) { return encodeAll("ConfigMap", objects.ConfigMaps(n)) }),

	"custom": {objects.ApplicationResource, func(n int) (sets, error) {
		all := make([]*objects.Application, n)
		for i := range all {
			all[i] = objects.NewApplication(i)
		}
		return encode(InJSON, metav1.TypeMeta{APIVersion: all[0].APIVersion, Kind: all[0].Kind}, all, func(a *objects.Application) ([]byte, error) { return json.Marshal(a) })
	}},
}

// Resource returns the resource of a data set.
func Resource(dataset string) (r schema.GroupVersionResource, ok bool) {
	d, ok := datasets[dataset]
	return d.resource, ok
}

// sets are the same objects in all formats in which the server has them.
type sets map[Format]*set

// first returns the objects in JSON, or in their only format.
func (s sets) first() *set { return cmp.Or(s[InJSON], s[InProtobuf]) }

// set is objects of one resource in one format.
type set struct {
	format  Format
	kind    metav1.TypeMeta
	objects []encoded
}

// encoded is the bytes of an object and of its events. A changed object differs only in its resource
// version, which the server writes over.
type encoded struct {
	object          []byte
	version         int    // the offset of the resource version
	added, modified []byte // the bytes before the object in an event
	end             []byte // the bytes after it
}

func encodeAll[T interface {
	metav1.Object
	message
}](kind string, all []T) (sets, error) {
	meta := metav1.TypeMeta{APIVersion: "v1", Kind: kind}
	both, err := encode(InJSON, meta, all, func(object T) ([]byte, error) { return json.Marshal(object) })
	if err != nil {
		return nil, err
	}
	binary, err := encode(InProtobuf, meta, all, T.Marshal)
	if err != nil {
		return nil, err
	}
	both[InProtobuf] = binary[InProtobuf]
	return both, nil
}

func encode[T metav1.Object](f Format, kind metav1.TypeMeta, all []T, marshal func(T) ([]byte, error)) (sets, error) {
	s := &set{format: f, kind: kind}
	for i, object := range all {
		version := strconv.Itoa(objects.FirstVersion + i)
		object.SetResourceVersion(version)
		data, err := marshal(object)
		if err != nil {
			return nil, err
		}
		if err := s.add(data, version); err != nil {
			return nil, err
		}
	}
	return sets{f: s}, nil
}

// add adds an object that contains its resource version once.
func (s *set) add(object []byte, version string) (err error) {
	e := encoded{object: object, version: bytes.Index(object, []byte(version))}
	if len(version) != len(strconv.Itoa(objects.FirstVersion)) || bytes.Count(object, []byte(version)) != 1 {
		return fmt.Errorf("resource version %s must be once in an object", version)
	}
	for event, head := range map[string]*[]byte{"ADDED": &e.added, "MODIFIED": &e.modified} {
		whole, err := s.frame(event, s.kind, object)
		if err != nil {
			return err
		}
		*head, e.end, _ = bytes.Cut(whole, object)
		*head = bytes.Clone(*head)
	}
	e.end = bytes.Clone(e.end)
	s.objects = append(s.objects, e)
	return nil
}

func (e encoded) append(to []byte, version int) []byte {
	start := len(to)
	to = append(to, e.object...)
	strconv.AppendInt(to[:start+e.version], int64(version), 10)
	return to
}

func (e encoded) appendEvent(to, head []byte, version int) []byte {
	return append(e.append(append(to, head...), version), e.end...)
}

type message interface{ Marshal() ([]byte, error) }

const magic = "k8s\x00"

// frame returns an event with an object.
func (s *set) frame(event string, kind metav1.TypeMeta, object []byte) ([]byte, error) {
	if s.format == InJSON {
		return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", event, object), nil
	}
	raw, err := envelope(kind, object)
	if err != nil {
		return nil, err
	}
	data, err := (&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}}).Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...), err
}

func envelope(kind metav1.TypeMeta, object []byte) ([]byte, error) {
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind}, Raw: object}).Marshal()
	return append([]byte(magic), data...), err
}

// event returns an event with an object that is in no set.
func (s *set) event(event string, kind metav1.TypeMeta, object message) ([]byte, error) {
	marshal := object.Marshal
	if s.format == InJSON {
		marshal = func() ([]byte, error) { return json.Marshal(object) }
	}
	data, err := marshal()
	if err != nil {
		return nil, err
	}
	return s.frame(event, kind, data)
}

// list returns a list of all objects, which have these versions.
func (s *set) list(versions []int, newest int) ([]byte, error) {
	kind := metav1.TypeMeta{APIVersion: s.kind.APIVersion, Kind: s.kind.Kind + "List"}
	if s.format == InProtobuf {
		const metadata, items = 1<<3 | 2, 2<<3 | 2 // fields of bytes, as in the lists of all types
		meta, err := (&metav1.ListMeta{ResourceVersion: strconv.Itoa(newest)}).Marshal()
		list := append(binary.AppendUvarint([]byte{metadata}, uint64(len(meta))), meta...)
		for i, e := range s.objects {
			list = binary.AppendUvarint(append(list, items), uint64(len(e.object)))
			list = e.append(list, versions[i])
		}
		if err != nil {
			return nil, err
		}
		return envelope(kind, list)
	}
	list := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind.Kind, kind.APIVersion, newest)
	for i, e := range s.objects {
		if i > 0 {
			list = append(list, ',')
		}
		if s.kind.APIVersion == "v1" { // items of built-in types have no kind
			skip := len(fmt.Sprintf(`{"kind":%q,"apiVersion":"v1",`, s.kind.Kind))
			list = append(list, '{')
			e.object, e.version = e.object[skip:], e.version-skip
		}
		list = e.append(list, versions[i])
	}
	return append(list, "]}\n"...), nil
}
