package wire

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var (
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

	podMeta       = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	configMapMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
)

func newConfigMap(i int) any {
	c := &corev1.ConfigMap{
		TypeMeta: configMapMeta,
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": fmt.Sprint("app-", i/20)},
			Annotations: map[string]string{"example.com/own": fmt.Sprint(i)},
		},
		Data:       map[string]string{"key": fmt.Sprint("value of ", i), "text": "ünïcode\t\"\\"},
		BinaryData: map[string][]byte{"binary": {0, 1, byte(i), 255}},
	}
	if i%3 == 0 {
		yes := true
		c.Data, c.Labels, c.Immutable = nil, nil, &yes
	}
	return c
}

func newPod(i int) any {
	app, seconds := fmt.Sprint("app-", i/20), int64(300)
	yes := true
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("main")}},
		PeriodSeconds: 5,
	}
	container := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example.com/" + app + ":v1", Args: []string{"--name=" + app, fmt.Sprint("--number=", i)},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Env: []corev1.EnvVar{
				{Name: "APP", Value: app},
				{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")},
				Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100+i%7), resource.DecimalSI)},
			},
			VolumeMounts:   []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			ReadinessProbe: probe, LivenessProbe: probe,
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool)},
		}
	}
	p := &corev1.Pod{
		TypeMeta: podMeta,
		ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: "0b1c2d3e", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers:       []corev1.Container{container("main", 8080), container("proxy", 9090)},
			Volumes:          []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Tolerations:      []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			SecurityContext:  &corev1.PodSecurityContext{RunAsNonRoot: &yes},
		},
	}
	if i%3 == 0 {
		p.Labels, p.Spec.Containers[1].Env, p.Spec.Tolerations = nil, nil, nil
	}
	return p
}
