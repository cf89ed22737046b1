package pods

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Whole makes pods with all that running pods have, for those who decode them: about 6.1 kB of JSON each, and 3.6 kB of protobuf. They are in the order
// of their keys.
//
// Twenty pods each come from one template and have in common what the pods of a Deployment have in common; names, addresses, identifiers, times and the
// volume of the service account's token are each pod's own. If they are unlike, nothing that could be is the same in two pods: no map, no list, no
// quantity.
func Whole(n int, unlike bool) []*corev1.Pod {
	m := &maker{random: rand.New(rand.NewPCG(5, 6)), unlike: unlike}
	all := make([]*corev1.Pod, 0, n)
	for i := range n {
		if i%replicas == 0 || unlike {
			m.template = m.newTemplate(i / replicas)
		}
		all = append(all, m.pod(i))
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i, pod := range all {
		pod.ResourceVersion = fmt.Sprint(firstVersion + i)
	}
	return all
}

// maker makes whole pods.
type maker struct {
	random   *rand.Rand
	unlike   bool
	template template
}

// template is what pods of one Deployment have in common.
type template struct {
	namespace, app, hash, checksum string
	replicaSet                     types.UID
	cpu, memory                    int64
	port                           int32
}

func (m *maker) newTemplate(i int) template {
	return template{
		namespace: fmt.Sprintf("team-%03d", i%100), app: apps[i%len(apps)] + "-" + word(m.random, 5), hash: word(m.random, 10),
		checksum: m.hex(64), replicaSet: uid(m.random),
		cpu: 50 * (1 + m.random.Int64N(20)), memory: 64 * (1 + m.random.Int64N(16)), port: 8000 + m.random.Int32N(1000),
	}
}

// own is a text that is the same in all pods, unless they are to be unlike.
func (m *maker) own(text string) string {
	if m.unlike {
		return text + "-" + word(m.random, 8)
	}
	return text
}

func (m *maker) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[m.random.IntN(16)]
	}
	return string(b)
}

func (m *maker) pod(i int) *corev1.Pod {
	t := m.template
	created := metav1.NewTime(time.Unix(1_750_000_000+m.random.Int64N(10_000_000), 0))
	later := metav1.NewTime(created.Add(time.Duration(1+m.random.IntN(30)) * time.Second))
	token := "kube-api-access-" + word(m.random, 5)
	name := t.app + "-" + t.hash
	yes, grace := true, int64(30)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + word(m.random, 5), GenerateName: name + "-", Namespace: t.namespace, UID: uid(m.random),
			ResourceVersion: "0", CreationTimestamp: created, Generation: 1,
			Labels: map[string]string{
				"app.kubernetes.io/name": t.app, "app.kubernetes.io/part-of": m.own("shop"), "pod-template-hash": t.hash, "team": t.namespace,
			},
			Annotations: map[string]string{
				"checksum/config": t.checksum, "prometheus.io/port": fmt.Sprint(t.port), "prometheus.io/scrape": m.own("true"),
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: t.replicaSet, Controller: &yes, BlockOwnerDeletion: &yes},
			},
			ManagedFields: m.managedFields(created, later),
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{m.container("main", token), m.container("proxy", token)},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: t.app}, DefaultMode: new(int32),
				}}},
				{Name: token, VolumeSource: corev1.VolumeSource{Projected: m.token()}},
			},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &yes, Priority: new(int32), PreemptionPolicy: new(corev1.PreemptLowerPriority),
			ServiceAccountName: t.app, DeprecatedServiceAccount: t.app, NodeName: node(m.random.IntN(500)),
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, FSGroup: m.number(2000)},
			Tolerations: []corev1.Toleration{
				{Key: m.own("node.kubernetes.io/not-ready"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: m.number(300)},
				{Key: m.own("node.kubernetes.io/unreachable"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: m.number(300)},
			},
		},
	}
	pod.Status = m.status(pod, created, later, i)
	return pod
}

// number is one that is the same in all pods, unless they are to be unlike.
func (m *maker) number(n int64) *int64 {
	if m.unlike {
		n = m.random.Int64N(1 << 30)
	}
	return &n
}

func (m *maker) token() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{DefaultMode: new(int32), Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: m.number(3607), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: m.own("kube-root-ca.crt")}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: m.own("ca.crt")}},
		}},
	}}
}

func (m *maker) container(name, token string) corev1.Container {
	t := m.template
	return corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example.com/%s/%s:%s", t.namespace, t.app, t.hash), ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{m.own("--config=/etc/config/config.yaml"), "--log-level=info"},
		Ports: []corev1.ContainerPort{{Name: m.own("http"), ContainerPort: t.port, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "DATABASE_URL", Value: "postgres://db.example.com:5432/" + t.app}, {Name: "LOG_FORMAT", Value: m.own("json")},
		},
		Resources: m.resources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		ReadinessProbe:         m.probe("/readyz"),
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool), RunAsUser: m.number(1000)},
	}
}

func (m *maker) resources() corev1.ResourceRequirements {
	cpu, memory := m.template.cpu, m.template.memory
	if m.unlike {
		cpu, memory = m.random.Int64N(1<<20), m.random.Int64N(1<<20)
	}
	return corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": *resource.NewMilliQuantity(2*cpu, resource.DecimalSI), "memory": *resource.NewQuantity(2*memory<<20, resource.BinarySI)},
		Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": *resource.NewQuantity(memory<<20, resource.BinarySI)},
	}
}

func (m *maker) probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: m.own(path), Port: intstr.FromInt32(m.template.port), Scheme: "HTTP"}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func (m *maker) managedFields(created, later metav1.Time) []metav1.ManagedFieldsEntry {
	entry := func(manager, part string, at metav1.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: part,
		}
	}
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", created, `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/scrape":{}},"f:generateName":{},`+
			`"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"`+string(m.template.replicaSet)+`\"}":{}}},`+
			`"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{},"f:image":{},"f:name":{},"f:resources":{}}}}}`),
		entry("kubelet", "status", later, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},`+
			`"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"`+m.own("f:podIP")+`":{},"f:startTime":{}}}`),
	}
}

func (m *maker) status(pod *corev1.Pod, created, later metav1.Time, i int) corev1.PodStatus {
	yes := true
	address := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	host := fmt.Sprintf("172.16.%d.%d", m.random.IntN(2), m.random.IntN(250))
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: host, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		StartTime: &created, QOSClass: corev1.PodQOSBurstable,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: later})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: &yes, Image: c.Image, ImageID: c.Name + "@sha256:" + m.template.checksum,
			ContainerID: "containerd://" + m.hex(64), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: later}},
		})
	}
	return status
}
