package objects

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Kind is a kind with its resource.
type Kind struct {
	Name     string
	Resource schema.GroupVersionResource
}

// ClusterKinds are the kinds of [Cluster].
var ClusterKinds = []Kind{
	{"Pod", corev1.SchemeGroupVersion.WithResource("pods")},
	{"Job", batchv1.SchemeGroupVersion.WithResource("jobs")},
	{"CronJob", batchv1.SchemeGroupVersion.WithResource("cronjobs")},
	{"Deployment", appsv1.SchemeGroupVersion.WithResource("deployments")},
	{"ReplicaSet", appsv1.SchemeGroupVersion.WithResource("replicasets")},
	{"ServiceAccount", corev1.SchemeGroupVersion.WithResource("serviceaccounts")},
	{"Service", corev1.SchemeGroupVersion.WithResource("services")},
	{"EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices")},
	{"PodDisruptionBudget", policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")},
	{"HorizontalPodAutoscaler", autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")},
	{"Ingress", networkingv1.SchemeGroupVersion.WithResource("ingresses")},
	{"Secret", corev1.SchemeGroupVersion.WithResource("secrets")},
	{"ConfigMap", corev1.SchemeGroupVersion.WithResource("configmaps")},
	{"Namespace", corev1.SchemeGroupVersion.WithResource("namespaces")},
	{"NetworkPolicy", networkingv1.SchemeGroupVersion.WithResource("networkpolicies")},
	{"RoleBinding", rbacv1.SchemeGroupVersion.WithResource("rolebindings")},
	{"Node", corev1.SchemeGroupVersion.WithResource("nodes")},
	{"Lease", coordinationv1.SchemeGroupVersion.WithResource("leases")},
	{"PersistentVolumeClaim", corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")},
	{"PersistentVolume", corev1.SchemeGroupVersion.WithResource("persistentvolumes")},
}

// Object is an object of a kind that has a protobuf form.
type Object interface {
	metav1.Object
	Marshal() ([]byte, error)
}

// cluster collects objects by kind.
type cluster struct {
	*maker
	objects [][]Object // by the index of their kind
}

// Cluster makes the objects of a cluster with so many pods, in the order of [ClusterKinds]: see the
// package's documentation.
func Cluster(pods int) [][]Object {
	c := &cluster{objects: make([][]Object, len(ClusterKinds)), maker: newMaker(Field, Size{Pods: pods, Namespaces: 100, Nodes: max(1, pods/40)})}
	c.random = rand.New(rand.NewPCG(7, 8)) // not the names that the pods get
	c.pods()
	c.configuration()
	c.machines()
	for _, all := range c.objects {
		slices.SortFunc(all, func(a, b Object) int {
			return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
		})
	}
	return c.objects
}

// add adds an object of a kind of [ClusterKinds].
func (c *cluster) add(kind string, object Object) {
	at := slices.IndexFunc(ClusterKinds, func(k Kind) bool { return k.Name == kind })
	c.objects[at] = append(c.objects[at], object)
}

// named is the metadata of an object that belongs to a workload.
func (c *cluster) named(manager, namespace, name string, labels map[string]string, fields string) metav1.ObjectMeta {
	meta := c.meta(manager, name, 0, `{"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:team":{}}},`+fields+`}`)
	meta.Namespace, meta.Labels, meta.Generation = namespace, labels, 1
	return meta
}

// pods adds pods and what manages them, or leads to them.
func (c *cluster) pods() {
	owners, apps := map[string]bool{}, map[string]bool{}
	for _, pod := range Pods(c.size.Pods, Field) {
		c.add("Pod", pod)
		owner := pod.OwnerReferences[0]
		app := pod.Namespace + "/" + pod.Labels["app.kubernetes.io/name"]
		if !owners[pod.Namespace+"/"+owner.Name] {
			owners[pod.Namespace+"/"+owner.Name] = true
			if owner.Kind == "Job" {
				c.job(pod, !apps[app])
			} else {
				c.deployment(pod)
			}
		}
		apps[app] = true
	}
}

// template returns the template that the pod was made from.
func template(pod *corev1.Pod) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: *pod.Spec.DeepCopy()}
	t.Spec.NodeName, t.Spec.Volumes, t.Spec.Tolerations = "", t.Spec.Volumes[:1], nil
	return t
}

func (c *cluster) job(pod *corev1.Pod, first bool) {
	owner, labels := pod.OwnerReferences[0], map[string]string{"app.kubernetes.io/name": pod.Labels["app.kubernetes.io/name"], "team": pod.Namespace}
	done, one, yes := pod.CreationTimestamp, int32(1), true
	cron := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: labels["app.kubernetes.io/name"], UID: c.uid(), Controller: &yes, BlockOwnerDeletion: &yes}
	job := &batchv1.Job{
		ObjectMeta: c.named("kube-controller-manager", pod.Namespace, owner.Name, pod.Labels, jobFields),
		Spec:       batchv1.JobSpec{Parallelism: &one, Completions: &one, BackoffLimit: new(int32), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: template(pod)},
		Status: batchv1.JobStatus{
			Succeeded: 1, StartTime: &done, CompletionTime: &done,
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastProbeTime: done, LastTransitionTime: done}},
		},
	}
	job.UID, job.OwnerReferences = owner.UID, []metav1.OwnerReference{cron}
	c.add("Job", job)
	if first {
		c.add("CronJob", &batchv1.CronJob{
			ObjectMeta: c.named("kubectl-client-side-apply", pod.Namespace, cron.Name, labels, jobFields),
			Spec:       batchv1.CronJobSpec{Schedule: "*/30 * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent, JobTemplate: batchv1.JobTemplateSpec{Spec: job.Spec}},
			Status:     batchv1.CronJobStatus{LastScheduleTime: &done, LastSuccessfulTime: &done},
		})
	}
}

// oldRevisions is how many ReplicaSets of a Deployment have no pods. The default limit is ten.
const oldRevisions = 3

func (c *cluster) deployment(pod *corev1.Pod) {
	app, ns := pod.Labels["app.kubernetes.io/name"], pod.Namespace
	labels := map[string]string{"app.kubernetes.io/name": app, "team": ns}
	selector, created, one, yes := &metav1.LabelSelector{MatchLabels: labels}, pod.CreationTimestamp, int32(1), true
	deployment := &appsv1.Deployment{
		ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, deploymentFields),
		Spec:       appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template(pod)},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.", LastUpdateTime: created, LastTransitionTime: created},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: fmt.Sprintf("ReplicaSet %q has successfully progressed.", pod.OwnerReferences[0].Name), LastUpdateTime: created, LastTransitionTime: created},
			},
		},
	}
	c.add("Deployment", deployment)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app, UID: deployment.UID, Controller: &yes, BlockOwnerDeletion: &yes}
	for revision := range oldRevisions + 1 {
		name, uid := pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID
		if revision > 0 {
			name, uid = app+"-"+c.word(10), c.uid()
		}
		set := &appsv1.ReplicaSet{
			ObjectMeta: c.named("kube-controller-manager", ns, name, pod.Labels, deploymentFields),
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: template(pod)},
			Status:     appsv1.ReplicaSetStatus{ObservedGeneration: 1},
		}
		set.UID, set.OwnerReferences = uid, []metav1.OwnerReference{owner}
		set.Annotations = map[string]string{"deployment.kubernetes.io/desired-replicas": "1", "deployment.kubernetes.io/max-replicas": "2", "deployment.kubernetes.io/revision": fmt.Sprint(revision + 1)}
		c.add("ReplicaSet", set)
	}
	c.add("ServiceAccount", &corev1.ServiceAccount{ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, `"f:secrets":{}`)})
	c.add("Service", &corev1.Service{
		ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, serviceFields),
		Spec: corev1.ServiceSpec{
			Selector: labels, ClusterIP: pod.Status.PodIP, ClusterIPs: []string{pod.Status.PodIP}, Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("http")}},
		},
	})
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: c.named("kube-controller-manager", ns, app+"-"+c.word(5), map[string]string{"kubernetes.io/service-name": app, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}, serviceFields),
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: new(bool)}, NodeName: &pod.Spec.NodeName,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	c.add("EndpointSlice", slice)
	if c.random.IntN(3) == 0 {
		c.add("PodDisruptionBudget", &policyv1.PodDisruptionBudget{
			ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, `"f:spec":{"f:maxUnavailable":{},"f:selector":{}}`),
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: selector},
		})
		c.add("HorizontalPodAutoscaler", &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, `"f:spec":{"f:maxReplicas":{},"f:metrics":{},"f:minReplicas":{},"f:scaleTargetRef":{}}`),
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app}, MinReplicas: &one, MaxReplicas: 10},
		})
		prefix := networkingv1.PathTypePrefix
		c.add("Ingress", &networkingv1.Ingress{
			ObjectMeta: c.named("kubectl-client-side-apply", ns, app, labels, `"f:spec":{"f:rules":{}}`),
			Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: app + ".example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: app, Port: networkingv1.ServiceBackendPort{Name: "http"}}}}},
			}}}}},
		})
	}
}

// configuration adds what namespaces have.
func (c *cluster) configuration() {
	for _, secret := range Secrets(max(1, c.size.Pods/10)) {
		c.add("Secret", secret)
	}
	for _, config := range ConfigMaps(max(1, c.size.Pods/5)) {
		c.add("ConfigMap", config)
	}
	for i := range c.size.Namespaces {
		name := c.namespaceOf(i)
		namespace := &corev1.Namespace{
			ObjectMeta: c.named("kubectl-create", "", name, map[string]string{"kubernetes.io/metadata.name": name, "team": name}, `"f:spec":{}`),
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}
		c.add("Namespace", namespace)
		c.add("NetworkPolicy", &networkingv1.NetworkPolicy{
			ObjectMeta: c.named("kubectl-client-side-apply", name, "default-deny", nil, `"f:spec":{"f:policyTypes":{}}`),
			Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
		})
		for _, role := range []string{"admin", "edit", "view"} {
			c.add("RoleBinding", &rbacv1.RoleBinding{
				ObjectMeta: c.named("kubectl-client-side-apply", name, role, nil, `"f:roleRef":{},"f:subjects":{}`),
				Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: name + "-" + role}},
				RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			})
		}
	}
}

// machines adds nodes and volumes.
func (c *cluster) machines() {
	for i := range c.size.Nodes {
		n := &corev1.Node{ObjectMeta: c.named("kubelet", "", node(i), map[string]string{
			"kubernetes.io/hostname": node(i), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m6i.2xlarge",
			"topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1" + string(rune('a'+i%3)),
		}, `"f:status":{"f:conditions":{},"f:images":{}}`)}
		n.Spec = corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), ProviderID: "aws:///eu-west-1a/i-" + c.hex(17)}
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("200Gi")}
		n.Status.Allocatable = n.Status.Capacity
		for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "Kubelet" + string(kind), Message: "kubelet says so", LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: n.CreationTimestamp})
		}
		for range 50 { // the kubelet's default limit of reported images
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{"registry.example.com/" + c.word(12) + "@sha256:" + c.hex(64)}, SizeBytes: c.random.Int64N(1 << 30)})
		}
		c.add("Node", n)
		c.add("Lease", &coordinationv1.Lease{
			ObjectMeta: c.named("kubelet", "kube-node-lease", node(i), nil, `"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}`),
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(node(i)), LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NewMicroTime(n.CreationTimestamp.Time))},
		})
		claim, volume, storage := "data-"+c.word(5), "pvc-"+string(c.uid()), corev1.ResourceList{"storage": resource.MustParse("20Gi")}
		namespace := c.namespaceOf(i)
		c.add("PersistentVolumeClaim", &corev1.PersistentVolumeClaim{
			ObjectMeta: c.named("kube-controller-manager", namespace, claim, nil, `"f:spec":{"f:accessModes":{},"f:resources":{},"f:volumeName":{}}`),
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volume, StorageClassName: new("gp3"), Resources: corev1.VolumeResourceRequirements{Requests: storage}},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage},
		})
		c.add("PersistentVolume", &corev1.PersistentVolume{
			ObjectMeta: c.named("csi-provisioner", "", volume, nil, `"f:spec":{"f:accessModes":{},"f:capacity":{},"f:claimRef":{},"f:csi":{}}`),
			Spec: corev1.PersistentVolumeSpec{
				Capacity: storage, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "gp3", ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + c.hex(17)}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		})
	}
}

// Managed fields of what has a template, and of what has ports.
const (
	jobFields        = `"f:spec":{"f:backoffLimit":{},"f:completions":{},"f:parallelism":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}` + templateFields
	deploymentFields = `"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}` + templateFields
	templateFields   = `":{".":{},"f:args":{},"f:env":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{},"f:readinessProbe":{},"f:resources":{},"f:volumeMounts":{}}},"f:restartPolicy":{}}}}`
	serviceFields    = `"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:type":{}}`
)
