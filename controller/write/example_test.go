package write_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// What a ConfigMap stands for outside of the cluster ends before the ConfigMap does.
func ExampleFinalize() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, configMaps := context.Background(), clientset.CoreV1().ConfigMaps("shop")
	held, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "till"}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}

	buckets := map[string]bool{} // outside
	reconcile := func(held *corev1.ConfigMap) error {
		held, alive, err := write.Finalize(ctx, configMaps, held, "example.com/bucket", func(_ context.Context, c *corev1.ConfigMap) error {
			delete(buckets, c.Name)
			return nil
		})
		if err != nil || !alive {
			return err
		}
		buckets[held.Name] = true
		return nil
	}
	tell := func(what string, err error) {
		all, _ := configMaps.List(ctx, metav1.ListOptions{})
		fmt.Printf("%s: %d ConfigMap(s), %d bucket(s), %v\n", what, len(all.Items), len(buckets), err)
	}
	tell("created", reconcile(held))
	if err := configMaps.Delete(ctx, "till", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	held, err = configMaps.Get(ctx, "till", metav1.GetOptions{})
	tell("told to go", err)
	tell("gone", reconcile(held))
	// Output:
	// created: 1 ConfigMap(s), 1 bucket(s), <nil>
	// told to go: 1 ConfigMap(s), 1 bucket(s), <nil>
	// gone: 0 ConfigMap(s), 0 bucket(s), <nil>
}

// Own takes an object that has no controller. This function refuses one that somebody else has made.
func ExampleCreateOrUpdate() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())
	ctx, configMaps := context.Background(), clientset.CoreV1().ConfigMaps("shop")
	for _, name := range []string{"owner", "theirs"} {
		if _, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}
	owner, err := configMaps.Get(ctx, "owner", metav1.GetOptions{})
	if err != nil {
		panic(err)
	}
	ensure := func(name string, held *corev1.ConfigMap) {
		key := store.Key{Namespace: "shop", Name: name}
		made, err := write.CreateOrUpdate(ctx, configMaps, held, key, func(c *corev1.ConfigMap) error {
			if c.UID != "" && !metav1.IsControlledBy(c, owner) {
				return fmt.Errorf("there is a ConfigMap %s that is not ours", key)
			}
			c.Data = map[string]string{"made": "yes"}
			return write.Own(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"), c)
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(made.Name, made.OwnerReferences[0].Name)
	}
	ensure("ours", nil)
	ensure("theirs", nil) // the cache does not have it yet
	theirs, err := configMaps.Get(ctx, "theirs", metav1.GetOptions{})
	if err != nil {
		panic(err)
	}
	ensure("theirs", theirs)
	fmt.Println(len(theirs.OwnerReferences), "owners")
	// Output:
	// ours owner
	// change *v1.ConfigMap shop/theirs: there is a ConfigMap shop/theirs that is not ours
	// change *v1.ConfigMap shop/theirs: there is a ConfigMap shop/theirs that is not ours
	// 0 owners
}
