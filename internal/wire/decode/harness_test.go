package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// decodes decodes one object from memory that is overwritten afterwards, as that of a batch is.
func decodes[T any](tb testing.TB, d *Decoder[T], format wire.Format, data []byte) (T, error) {
	tb.Helper()
	buffer := bytes.Clone(data)
	object, err := d.Decode(format, buffer)
	for i := range buffer {
		buffer[i] = 'X'
	}
	return object, err
}

// decoderOf returns a decoder of T.
func decoderOf[T any](tb testing.TB, opts ...Options) *Decoder[T] {
	tb.Helper()
	codec, err := For[T](only(opts))
	require.NoError(tb, err)
	return codec.NewDecoder()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podMaker makes pods as a cluster has them: each is one of some that were made from the same
// template, with names, addresses and times of its own. With unique, no part of a pod is like
// that of another.
type podMaker struct {
	rand   *rand.Rand
	unique bool
}

// perTemplate is how many pods have the same template.
const perTemplate = 20

func makePods(n int, unique bool) []*corev1.Pod {
	m := &podMaker{rand: rand.New(rand.NewPCG(1, 2)), unique: unique}
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = m.pod(i)
	}
	return pods
}

const letters = "bcdfghjklmnpqrstvwxz2456789"

func (m *podMaker) word(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[m.rand.IntN(len(letters))]
	}
	return string(b)
}

// own is text that differs between pods if all of theirs does.
func (m *podMaker) own(text string) string {
	if m.unique {
		return text + "-" + m.word(8)
	}
	return text
}

func (m *podMaker) uid() types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", m.rand.Uint32(), m.rand.IntN(1<<16), m.rand.IntN(1<<16), m.rand.IntN(1<<16), m.rand.Int64N(1<<48)))
}

func (m *podMaker) pod(i int) *corev1.Pod {
	template := i / perTemplate
	app := m.own(fmt.Sprintf("service-%d", template))
	hash := m.own(fmt.Sprintf("%09d", template*7919))
	created := metav1.NewTime(time.Date(2025, 3, 1+i%28, i%24, i%60, i%59, 0, time.UTC).Local())
	volume := "kube-api-access-" + m.word(5)
	yes := true
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-" + hash + "-" + m.word(5), GenerateName: app + "-" + hash + "-", Namespace: fmt.Sprintf("team-%d", template%40),
			UID: m.uid(), ResourceVersion: fmt.Sprint(10_000_000 + i), CreationTimestamp: created,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash, "tier": "backend",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": m.own(fmt.Sprintf("%064d", template)),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID(m.own(fmt.Sprintf("%036d", template))), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				m.managed("kube-controller-manager", "", created, `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"`+m.own(fmt.Sprint(template))+`\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{},"f:image":{},"f:name":{},"f:resources":{}}}}}`),
				m.managed("kubelet", "status", created, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{},"f:x`+m.own("")+`":{}}}`),
			},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
				{Name: volume, VolumeSource: corev1.VolumeSource{Projected: m.projected()}},
			},
			Containers:    []corev1.Container{m.container("main", app, volume), m.container("proxy", app, volume)},
			RestartPolicy: "Always", DNSPolicy: "ClusterFirst", ServiceAccountName: app, DeprecatedServiceAccount: app,
			NodeName: fmt.Sprintf("node-%d", m.rand.IntN(200)), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: m.own("node.kubernetes.io/not-ready"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64)},
				{Key: m.own("node.kubernetes.io/unreachable"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64)},
			},
		},
		Status: corev1.PodStatus{Phase: "Running", HostIP: "10.0.0.1", PodIP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250), StartTime: &created, QOSClass: "Burstable"},
	}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True", LastTransitionTime: created})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: &yes, Image: c.Image, ImageID: c.Image + "@sha256:0123456789abcdef", ContainerID: "containerd://" + m.word(64),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}}, AllocatedResources: c.Resources.Requests, Resources: &c.Resources,
		})
	}
	return pod
}

func (m *podMaker) managed(manager, part string, at metav1.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: part,
	}
}

func (m *podMaker) projected() *corev1.ProjectedVolumeSource {
	seconds, mode := int64(3607), int32(420)
	if m.unique {
		seconds = m.rand.Int64()
	}
	return &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
	}}
}

func (m *podMaker) quantity(text string) resource.Quantity {
	if m.unique {
		return *resource.NewQuantity(m.rand.Int64N(1<<40), resource.DecimalSI)
	}
	return resource.MustParse(text)
}

func (m *podMaker) container(name, app, volume string) corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: m.own(path), Port: intstr.FromString("http"), Scheme: "HTTP"}},
			InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	no := false
	return corev1.Container{
		Name: name, Image: "registry.example.com/shop/" + app + ":v1.2.3", ImagePullPolicy: "IfNotPresent",
		Args:  []string{m.own("--config=/etc/config/config.yaml"), "--log-level=info"},
		Ports: []corev1.ContainerPort{{Name: m.own("http"), ContainerPort: 8080, Protocol: "TCP"}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "DATABASE_URL", Value: "postgres://db.example.com:5432/" + app}, {Name: "LOG_FORMAT", Value: "json"},
		},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{"cpu": m.quantity("500m"), "memory": m.quantity("512Mi")},
			Requests: corev1.ResourceList{"cpu": m.quantity("100m"), "memory": m.quantity("128Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: volume, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no},
	}
}

// only returns the options, if there are any.
func only(opts []Options) (o Options) {
	for _, o = range opts {
	}
	return o
}
