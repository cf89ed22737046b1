package upstream

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The load: each namespace has Deployments, each with a Service, a StatefulSet and a Job.
const (
	loadNodes       = 20
	loadNamespaces  = 10
	loadDeployments = 10 // in a namespace
	loadReplicas    = 10 // of a Deployment
	loadSet         = 3  // pods of a StatefulSet
	loadJob         = 5  // pods of a Job
)

const rollingUpdate = "rolling update"

var loadPhases = []string{"start", "creation", rollingUpdate, "garbage collection", "deletion of namespaces"}

// loadPhase does something that the programs have to finish.
type loadPhase struct {
	name string
	run  func()
	left func() string // what is not finished yet, or nothing
}

// load creates objects, and plays the kubelets of nodes. It reads by client-go's informers, whichever the programs have.
type load struct {
	t       *testing.T
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
}

func newLoad(t *testing.T, config *rest.Config) *load {
	t.Helper()
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	l := &load{t: t, client: client, factory: informers.NewSharedInformerFactory(client, 0)}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		running.Wait()
		l.factory.Shutdown()
	})
	pods := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{})
	changed := func(object any) {
		if p, ok := object.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			pods.Add(cache.MetaObjectToName(p))
		}
	}
	_, err = l.factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }})
	require.NoError(t, err)
	l.factory.Apps().V1().Deployments().Informer()
	l.factory.Apps().V1().ReplicaSets().Informer()
	l.factory.Apps().V1().StatefulSets().Informer()
	l.factory.Batch().V1().Jobs().Informer()
	l.factory.Discovery().V1().EndpointSlices().Informer()
	l.factory.StartWithContext(ctx)
	require.NoError(t, l.factory.WaitForCacheSyncWithContext(ctx).AsError())
	running.Go(func() { <-ctx.Done(); pods.ShutDown() })
	for range 8 {
		running.Go(func() {
			for name, end := pods.Get(); !end; name, end = pods.Get() {
				if err := l.play(ctx, name); err != nil && ctx.Err() == nil {
					t.Errorf("the kubelet of %s: %v", name, err)
				}
				pods.Done(name)
			}
		})
	}
	l.addNodes()
	running.Go(func() { l.renewLeases(ctx) })
	return l
}

// play does to a pod of a node what a kubelet would do. After a conflict, a newer state of the pod is in the queue or will be.
func (l *load) play(ctx context.Context, name cache.ObjectName) error {
	cached, err := l.factory.Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	p, pods := cached.DeepCopy(), l.client.CoreV1().Pods(name.Namespace)
	switch {
	case p.DeletionTimestamp != nil:
		err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	case p.Status.Phase != corev1.PodPending:
	case p.Spec.RestartPolicy == corev1.RestartPolicyNever:
		p.Status.Phase = corev1.PodSucceeded
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
	default:
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", p.UID[0], p.UID[1], p.UID[2])
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
		for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition })
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i) }

func (l *load) addNodes() {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("1000")}
	for i := range loadNodes {
		_, err := l.client.CoreV1().Nodes().Create(l.t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{corev1.LabelHostname: nodeName(i)}},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(), Reason: "KubeletReady",
			}}},
		}, metav1.CreateOptions{})
		require.NoError(l.t, err)
	}
}

// renewLeases shows the controller of the lifecycles of nodes that the nodes are alive.
func (l *load) renewLeases(ctx context.Context) {
	leases := l.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	made := make([]*coordinationv1.Lease, loadNodes)
	for tick := time.NewTicker(10 * time.Second); ctx.Err() == nil; {
		for i := range made {
			var err error
			if now := metav1.NowMicro(); made[i] == nil {
				made[i], err = leases.Create(ctx, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(nodeName(i)), LeaseDurationSeconds: new(int32(40)), RenewTime: &now},
				}, metav1.CreateOptions{})
			} else {
				made[i].Spec.RenewTime = &now
				made[i], err = leases.Update(ctx, made[i], metav1.UpdateOptions{})
			}
			if err != nil && ctx.Err() == nil {
				l.t.Errorf("renew the lease of %s: %v", nodeName(i), err)
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// each calls something for each namespace, several at a time.
func (l *load) each(do func(ctx context.Context, namespace string) error) {
	l.t.Helper()
	group, ctx := errgroup.WithContext(l.t.Context())
	for i := range loadNamespaces {
		group.Go(func() error { return do(ctx, fmt.Sprintf("load-%02d", i)) })
	}
	require.NoError(l.t, group.Wait())
}

func (l *load) phases() []loadPhase {
	return []loadPhase{
		{loadPhases[0], func() { <-time.After(10 * time.Second) }, func() string { return "" }},
		{loadPhases[1], func() { l.each(l.create) }, func() string { return l.unfinished("a") }},
		{loadPhases[2], func() { l.each(l.update) }, func() string { return l.unfinished("b") }},
		{loadPhases[3], func() { l.each(l.remove) }, l.remaining},
		{loadPhases[4], func() { l.each(l.terminate) }, l.namespaces},
	}
}

// await waits for the end of a phase.
func (l *load) await(phase string, left func() string) {
	l.t.Helper()
	limit := time.Now().Add(10 * time.Minute)
	for what := left(); what != ""; what = left() {
		require.True(l.t, time.Now().Before(limit), "%s does not end: %s", phase, what)
		<-time.After(100 * time.Millisecond)
	}
}

func template(app, image string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{
		RestartPolicy: policy, Volumes: []corev1.Volume{{Name: "scratch"}},
		Containers: []corev1.Container{{
			Name: "c", Image: image, Env: []corev1.EnvVar{{Name: "APP", Value: app}}, VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10Mi")}},
		}},
	}}
}

func (l *load) create(ctx context.Context, namespace string) error {
	_, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	for i := 0; i < loadDeployments && err == nil; i++ {
		app := fmt.Sprintf("web-%02d", i)
		selector := map[string]string{"app": app}
		if _, err = l.client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}); err == nil {
			_, err = l.client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(loadReplicas)), Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: template(app, "a", corev1.RestartPolicyAlways),
			}}, metav1.CreateOptions{})
		}
	}
	if err == nil {
		_, err = l.client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(loadSet)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db", "a", corev1.RestartPolicyAlways),
		}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = l.client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: batchv1.JobSpec{
			Completions: new(int32(loadJob)), Parallelism: new(int32(loadJob)), Template: template("batch", "a", corev1.RestartPolicyNever),
		}}, metav1.CreateOptions{})
	}
	return err
}

// update gives the Deployments and StatefulSets another image.
func (l *load) update(ctx context.Context, namespace string) error {
	patch := []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"b"}]`)
	_, err := l.client.AppsV1().StatefulSets(namespace).Patch(ctx, "db", "application/json-patch+json", patch, metav1.PatchOptions{})
	for i := 0; i < loadDeployments && err == nil; i++ {
		_, err = l.client.AppsV1().Deployments(namespace).Patch(ctx, fmt.Sprintf("web-%02d", i), "application/json-patch+json", patch, metav1.PatchOptions{})
	}
	return err
}

// remove deletes the owners of the pods, whose garbage remains.
func (l *load) remove(ctx context.Context, namespace string) error {
	policy := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	err := l.client.AppsV1().Deployments(namespace).DeleteCollection(ctx, policy, metav1.ListOptions{})
	if err == nil {
		err = l.client.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, policy, metav1.ListOptions{})
	}
	if err == nil {
		err = l.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, policy, metav1.ListOptions{})
	}
	return err
}

func (l *load) terminate(ctx context.Context, namespace string) error {
	return l.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}

// all returns the objects of a lister. The caches of informers have no errors.
func all[T any](lister interface {
	List(labels.Selector) ([]T, error)
}) []T {
	list, _ := lister.List(labels.Everything())
	return list
}

// unfinished says what lacks until all owners of pods have pods of an image that are available, and nothing else.
func (l *load) unfinished(image string) string {
	deployments, sets, jobs := all(l.factory.Apps().V1().Deployments().Lister()), all(l.factory.Apps().V1().StatefulSets().Lister()), all(l.factory.Batch().V1().Jobs().Lister())
	if len(deployments) != loadNamespaces*loadDeployments || len(sets) != loadNamespaces || len(jobs) != loadNamespaces {
		return fmt.Sprintf("%d Deployments, %d StatefulSets and %d Jobs", len(deployments), len(sets), len(jobs))
	}
	for _, d := range deployments {
		if s := d.Status; d.Spec.Template.Spec.Containers[0].Image != image || s.ObservedGeneration != d.Generation ||
			s.Replicas != loadReplicas || s.UpdatedReplicas != loadReplicas || s.AvailableReplicas != loadReplicas {
			return fmt.Sprintf("Deployment %s/%s: %+v", d.Namespace, d.Name, s)
		}
	}
	for _, s := range sets {
		if st := s.Status; s.Spec.Template.Spec.Containers[0].Image != image || st.ObservedGeneration != s.Generation || st.CurrentRevision != st.UpdateRevision || st.AvailableReplicas != loadSet {
			return fmt.Sprintf("StatefulSet %s/%s: %+v", s.Namespace, s.Name, st)
		}
	}
	for _, j := range jobs {
		if j.Status.CompletionTime == nil {
			return fmt.Sprintf("Job %s/%s: %+v", j.Namespace, j.Name, j.Status)
		}
	}
	ready := 0
	for _, s := range all(l.factory.Discovery().V1().EndpointSlices().Lister()) {
		if s.Labels[discoveryv1.LabelServiceName] == "kubernetes" {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready++
			}
		}
	}
	pods := len(all(l.factory.Core().V1().Pods().Lister()))
	if ready != loadNamespaces*loadDeployments*loadReplicas || pods != loadNamespaces*(loadDeployments*loadReplicas+loadSet+loadJob) {
		return fmt.Sprintf("%d pods and %d endpoints", pods, ready)
	}
	return ""
}

// remaining says what the garbage collector has not deleted.
func (l *load) remaining() string {
	pods, sets := len(all(l.factory.Core().V1().Pods().Lister())), len(all(l.factory.Apps().V1().ReplicaSets().Lister()))
	if pods+sets > 0 {
		return fmt.Sprintf("%d pods and %d ReplicaSets", pods, sets)
	}
	return ""
}

// namespaces says which namespaces are not gone. The last look is at the server, not at a cache.
func (l *load) namespaces() string {
	list, err := l.client.CoreV1().Namespaces().List(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	for _, n := range list.Items {
		if strings.HasPrefix(n.Name, "load-") {
			return "namespace " + n.Name
		}
	}
	slices, err := l.client.DiscoveryV1().EndpointSlices("").List(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	if len(slices.Items) > 1 { // of the Service kubernetes
		return fmt.Sprintf("%d EndpointSlices", len(slices.Items))
	}
	return ""
}

var terminatedWatches = regexp.MustCompile(`(?m)^apiserver_terminated_watchers_total\{(.*)\} (\d+)$`)

// slowWatches says how many watches kube-apiserver has ended because their buffers were full.
func (l *load) slowWatches() string {
	metrics, err := l.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(l.t.Context())
	require.NoError(l.t, err)
	var found []string
	for _, of := range terminatedWatches.FindAllSubmatch(metrics, -1) {
		found = append(found, fmt.Sprintf("%s of %s", of[2], of[1]))
	}
	return cmp.Or(strings.Join(found, ", "), "none")
}
