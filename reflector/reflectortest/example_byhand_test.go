package reflectortest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// Listing and watching without a library: what a reflector does, in plain HTTP.
func Example_byHand() {
	server, err := reflectortest.NewServer(reflectortest.OnPort())
	if err != nil {
		panic(err)
	}
	defer server.Close()
	create := func(name string) {
		if err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}); err != nil {
			panic(err)
		}
	}
	get := func(query string, into any) {
		response, err := http.Get(server.URL() + "/api/v1/namespaces/shop/pods" + query)
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		first, _ := bufio.NewReader(response.Body).ReadBytes('\n') // a watch goes on: one line is one event
		if err := json.Unmarshal(first, into); err != nil {
			panic(err)
		}
	}
	type event struct {
		Type   string
		Object struct {
			metav1.ObjectMeta `json:"metadata"`
			Code              int
			Reason            string
		}
	}

	create("till")
	var list corev1.PodList
	get("", &list)
	fmt.Println("list:", len(list.Items), "pod at resource version", list.ResourceVersion)

	create("stock")
	var news event
	get("?watch=true&resourceVersion="+list.ResourceVersion, &news)
	fmt.Println("watch from there:", news.Type, news.Object.Name)

	create("cash")
	if err := server.Compact(server.ResourceVersion()); err != nil {
		panic(err)
	}
	var expired event
	get("?watch=true&resourceVersion="+list.ResourceVersion, &expired)
	fmt.Println("when that is forgotten:", expired.Type, expired.Object.Code, expired.Object.Reason)
	// Output:
	// list: 1 pod at resource version 2
	// watch from there: ADDED stock
	// when that is forgotten: ERROR 410 Expired
}
