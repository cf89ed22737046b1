package objects

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
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

// Mix says how much pods have in common.
type Mix int

const (
	// Field is the mix of a cluster: see the package's documentation.
	Field Mix = iota
	// Templated pods have in common as much as pods can: 20 of each Deployment.
	Templated
	// Unlike pods have no map, list or quantity in common.
	Unlike
)

// Pods makes pods with all fields of running pods: about 8.5 kB of JSON each, and 5.8 kB of protobuf.
// They are in the order of their keys.
func Pods(n int, mix Mix) []*corev1.Pod {
	return pods(Size{Pods: n, Namespaces: 100, Nodes: 500}, mix, (*maker).wholePod)
}

func pods(size Size, mix Mix, pod func(*maker, int) *corev1.Pod) []*corev1.Pod {
	m := newMaker(mix, size)
	all := make([]*corev1.Pod, size.Pods)
	for i := range all {
		m.next()
		all[i] = pod(m, i)
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i, pod := range all {
		pod.ResourceVersion = fmt.Sprint(FirstVersion + i)
	}
	return all
}

// maker makes objects.
type maker struct {
	random *rand.Rand
	mix    Mix
	size   Size

	workload
	workloads int // so far
	left      int // pods that the workload still gets
}

// workload is what the pods of one Deployment or CronJob have in common.
type workload struct {
	job                            bool
	namespace, app, hash, checksum string
	owner                          types.UID // of the ReplicaSet or the Job
	cpu, memory                    int64
	port                           int32
}

// replicas are the shares of Deployments, of 1,000, with so many replicas.
var replicas = []struct{ share, least, most int }{
	{450, 1, 1}, {250, 2, 2}, {200, 3, 3}, {80, 4, 20}, {18, 21, 100}, {2, 101, 500},
}

const (
	cronJobs = 5 // one workload of so many is a CronJob
	jobs     = 3 // of a CronJob that the controller keeps
)

// next goes to the workload of the next pod.
func (m *maker) next() {
	if m.left == 0 {
		m.workload = workload{
			namespace: m.namespaceOf(m.workloads), app: apps[m.random.IntN(len(apps))] + "-" + m.word(5), hash: m.word(10),
			checksum: m.hex(64), owner: m.uid(),
			cpu: 50 * (1 + m.random.Int64N(20)), memory: 64 * (1 + m.random.Int64N(16)), port: 8000 + m.random.Int32N(1000),
		}
		m.left = m.pods()
		m.workloads++
	}
	m.left--
	if m.job {
		m.hash, m.owner = fmt.Sprint(29_000_000+m.random.IntN(1_000_000)), m.uid()
	}
}

// pods returns how many pods a new workload gets.
func (m *maker) pods() int {
	switch m.mix {
	case Templated:
		return 20
	case Unlike:
		return 1
	}
	if m.job = m.random.IntN(cronJobs) == 0; m.job {
		return jobs
	}
	rank := m.random.IntN(1000)
	for _, r := range replicas {
		if rank -= r.share; rank < 0 {
			return r.least + m.random.IntN(r.most-r.least+1)
		}
	}
	return 1
}

func (m *maker) namespaceOf(i int) string { return fmt.Sprintf("team-%03d", i%m.size.Namespaces) }

// own is a text that is the same in all pods, unless they are to be unlike.
func (m *maker) own(text string) string {
	if m.mix == Unlike {
		return text + "-" + m.word(8)
	}
	return text
}

// pod makes a pod with the fields that caches and their users look at.
func (m *maker) pod(i int) *corev1.Pod {
	name := m.app + "-" + m.hash
	yes, host := true, m.random.IntN(m.size.Nodes)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: m.owner, Controller: &yes, BlockOwnerDeletion: &yes}
	labels := map[string]string{"app.kubernetes.io/name": m.app, "app.kubernetes.io/part-of": m.own("shop"), "team": m.namespace}
	phase := corev1.PodRunning
	if m.job {
		owner.APIVersion, owner.Kind, phase = "batch/v1", "Job", corev1.PodSucceeded
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			labels[prefix+"controller-uid"], labels[prefix+"job-name"] = string(m.owner), name
		}
	} else {
		labels["pod-template-hash"] = m.hash
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + m.word(5), GenerateName: name + "-", Namespace: m.namespace, UID: m.uid(), Generation: 1,
			CreationTimestamp: metav1.Unix(1_750_000_000+m.random.Int64N(10_000_000), 0),
			Labels:            labels, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{NodeName: node(host), ServiceAccountName: m.app, Containers: []corev1.Container{{Name: "main", Image: m.image()}}},
		Status: corev1.PodStatus{
			Phase: phase, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255), HostIP: fmt.Sprintf("172.16.%d.%d", host/250, host%250),
		},
	}
}

func (m *maker) image() string {
	return fmt.Sprintf("registry.example.com/%s/%s:%s", m.namespace, m.app, m.checksum[:10])
}

// wholePod makes a pod with all fields.
func (m *maker) wholePod(i int) *corev1.Pod {
	pod := m.pod(i)
	created := pod.CreationTimestamp
	later := metav1.NewTime(created.Add(time.Duration(1+m.random.IntN(30)) * time.Second))
	token := "kube-api-access-" + m.word(5)
	yes, grace := true, int64(30)
	pod.Annotations = map[string]string{"checksum/config": m.checksum, "prometheus.io/port": fmt.Sprint(m.port), "prometheus.io/scrape": m.own("true")}
	pod.Spec = corev1.PodSpec{
		Containers: []corev1.Container{m.container("main", token), m.container("proxy", token)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: m.app}, DefaultMode: new(int32),
			}}},
			{Name: token, VolumeSource: corev1.VolumeSource{Projected: m.token()}},
		},
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &yes, Priority: new(int32), PreemptionPolicy: new(corev1.PreemptLowerPriority),
		ServiceAccountName: m.app, DeprecatedServiceAccount: m.app, NodeName: pod.Spec.NodeName,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, FSGroup: m.number(2000)},
		Tolerations: []corev1.Toleration{
			{Key: m.own("node.kubernetes.io/not-ready"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: m.number(300)},
			{Key: m.own("node.kubernetes.io/unreachable"), Operator: "Exists", Effect: "NoExecute", TolerationSeconds: m.number(300)},
		},
	}
	if m.job {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	m.status(pod, created, later)
	pod.ManagedFields = []metav1.ManagedFieldsEntry{
		managedBy("kube-controller-manager", "", created, m.controllerFields(pod)),
		managedBy("kubelet", "status", later, kubeletFields+pod.Status.PodIP+`\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`),
	}
	return pod
}

// number is one that is the same in all pods, unless they are to be unlike.
func (m *maker) number(n int64) *int64 {
	if m.mix == Unlike {
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
	c := corev1.Container{
		Name: name, Image: m.image(), ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{m.own("--config=/etc/config/config.yaml"), "--log-level=info"},
		Ports: []corev1.ContainerPort{{Name: m.own("http"), ContainerPort: m.port, Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "DATABASE_URL", Value: "postgres://db.example.com:5432/" + m.app}, {Name: "LOG_FORMAT", Value: m.own("json")},
		},
		Resources: m.resources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool), RunAsUser: m.number(1000)},
	}
	if !m.job {
		c.ReadinessProbe = m.probe("/readyz")
	}
	return c
}

func (m *maker) resources() corev1.ResourceRequirements {
	cpu, memory := m.cpu, m.memory
	if m.mix == Unlike {
		cpu, memory = m.random.Int64N(1<<20), m.random.Int64N(1<<20)
	}
	return corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": *resource.NewMilliQuantity(2*cpu, resource.DecimalSI), "memory": *resource.NewQuantity(2*memory<<20, resource.BinarySI)},
		Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": *resource.NewQuantity(memory<<20, resource.BinarySI)},
	}
}

func (m *maker) probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: m.own(path), Port: intstr.FromInt32(m.port), Scheme: "HTTP"}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func managedBy(manager, subresource string, at metav1.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource,
	}
}

// controllerFields returns the managed fields of a pod that its controller sets from the template.
func (m *maker) controllerFields(pod *corev1.Pod) string {
	set := func(keys iter.Seq[string]) string {
		return `":{".":{},"f:` + strings.Join(slices.Sorted(keys), `":{},"f:`) + `":{}}`
	}
	fields := `{"f:metadata":{"f:annotations` + set(maps.Keys(pod.Annotations)) + `,"f:generateName":{},"f:labels` + set(maps.Keys(pod.Labels)) +
		`,"f:ownerReferences":{".":{},"k:{\"uid\":\"` + string(m.owner) + `\"}":{}}},"f:spec":{"f:containers":{`
	for i, c := range pod.Spec.Containers {
		fields += []string{"", ","}[i] + `"k:{\"name\":\"` + c.Name + `\"}` + fmt.Sprintf(containerFields, m.port)
	}
	return fields + podFields
}

// The texts that API servers keep as managed fields.
const (
	containerFields = `":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"DATABASE_URL\"}":{".":{},"f:name":{},"f:value":{}},` +
		`"k:{\"name\":\"LOG_FORMAT\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},` +
		`"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":%d,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},` +
		`"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},` +
		`"f:securityContext":{".":{},"f:allowPrivilegeEscalation":{},"f:runAsUser":{}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{},` +
		`"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/config\"}":{".":{},"f:mountPath":{},"f:name":{},"f:readOnly":{}}}}`
	podFields = `},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{".":{},"f:fsGroup":{},"f:runAsNonRoot":{}},` +
		`"f:serviceAccount":{},"f:serviceAccountName":{},"f:terminationGracePeriodSeconds":{},` +
		`"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}}}}}`
	kubeletFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},` +
		`"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},` +
		`"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},` +
		`"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"`
)

func (m *maker) status(pod *corev1.Pod, created, later metav1.Time) {
	yes, ready, status := true, corev1.ConditionTrue, &pod.Status
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: later}}
	if m.job {
		ready = corev1.ConditionFalse
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: created, FinishedAt: later}}
	}
	status.PodIPs, status.StartTime, status.QOSClass = []corev1.PodIP{{IP: status.PodIP}}, &created, corev1.PodQOSBurstable
	status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: later}, {Type: corev1.PodReady, Status: ready, LastTransitionTime: later},
		{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: later}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: created},
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: !m.job, Started: &yes, Image: c.Image, ImageID: c.Name + "@sha256:" + m.checksum,
			ContainerID: "containerd://" + m.hex(64), State: state,
		})
	}
}
