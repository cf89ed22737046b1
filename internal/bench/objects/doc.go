// Package objects makes the objects of a cluster to measure with. The same arguments give the same
// objects.
//
// [Field] is the mix of objects that a cluster in the field has. Shares without a source are assumed:
//
//   - Deployments: 45 % have 1 replica, 25 % have 2, 20 % have 3, 8 % have up to 20, 1.8 % have up
//     to 100 and 0.2 % have up to 500. Their pods share labels, containers and resources. DaemonSets
//     and StatefulSets are not there.
//   - Jobs: one workload in five is a CronJob with 3 finished Jobs, which is the default history.
//     Each Job has one pod. Labels, owner and managed fields of a Job's pod are its own.
//   - All pods share tolerations, probe settings and the names of containers, environment variables
//     and conditions. Names, UIDs, times, addresses and container IDs are each pod's own.
//     Every pod has two containers.
//   - Managed fields take 2 to 4 kB of a pod (argo-workflows#16564). The controller's entry names the
//     UID of the owner, so only pods of one owner share it. The kubelet's entry names the address of
//     the pod, so no two pods share it.
//   - Secrets: 20 % are Helm releases of 4 to 60 kB, 20 kB on average (helm#4543), with up to 10
//     revisions, which is Helm's default. Their data is compressed, so no two are alike. 20 % are the
//     same registry credentials in each namespace. 60 % are small and their own.
//   - ConfigMaps: 5 % are kube-root-ca.crt, the same in each namespace. 95 % have data of their own.
//   - [Cluster]: a node for 40 pods, with 50 images, a Lease and a volume. Each Deployment has three old
//     ReplicaSets, a ServiceAccount, a Service and an EndpointSlice; one in three has a
//     PodDisruptionBudget, a HorizontalPodAutoscaler and an Ingress. There is a Secret for ten pods, and a
//     ConfigMap for five. All that has a template has that of its pods.
package objects
