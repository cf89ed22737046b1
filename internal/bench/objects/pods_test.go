package objects_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var mixes = []objects.Mix{objects.Templated, objects.Field, objects.Unlike}

func TestPodsAreAsLargeAsPromised(t *testing.T) {
	for _, mix := range mixes {
		var inJSON, inProtobuf int
		const n = 200
		for _, pod := range objects.Pods(n, mix) {
			text, err := json.Marshal(pod)
			require.NoError(t, err)
			inJSON += len(text)
			inProtobuf += pod.Size()
		}
		assert.InDelta(t, 8500, inJSON/n, 300, "JSON, mix %v", mix)
		assert.InDelta(t, 5800, inProtobuf/n, 300, "protobuf, mix %v", mix)
	}
}

func TestUnlikePodsHaveNothingInCommon(t *testing.T) {
	parts := func(pod *corev1.Pod) map[string]any {
		c := pod.Spec.Containers[0]
		return map[string]any{
			"labels": pod.Labels, "annotations": pod.Annotations, "owners": pod.OwnerReferences, "env": c.Env, "resources": c.Resources, "ports": c.Ports,
			"probe": c.ReadinessProbe, "tolerations": pod.Spec.Tolerations, "security": pod.Spec.SecurityContext, "args": c.Args,
			"fields": pod.ManagedFields[0].FieldsV1,
		}
	}
	for _, mix := range []objects.Mix{objects.Templated, objects.Unlike} {
		all := objects.Pods(200, mix)
		for name := range parts(all[0]) {
			different := map[string]bool{}
			for _, pod := range all {
				text, err := json.Marshal(parts(pod)[name])
				require.NoError(t, err)
				different[string(text)] = true
			}
			if mix == objects.Unlike {
				assert.Greater(t, len(different), 190, name)
			} else {
				assert.LessOrEqual(t, len(different), 10, fmt.Sprint(name, ": one a template"))
			}
		}
	}
}
