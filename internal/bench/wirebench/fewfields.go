package wirebench

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// fewFields is the type of a program that needs six of a pod's fields.
type fewFields struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

var oursFewFields = ours[*fewFields](false)
