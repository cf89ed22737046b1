package stream

import (
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKindOfBytesThatIsTheLastIsNotAllocated(t *testing.T) {
	last := metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	data := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}`)
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{}))
	assert.Equal(t, last, kindOfBytes(wire.JSON, data, metav1.TypeMeta{Kind: "Secret", APIVersion: "v2"}))
	assert.Zero(t, testing.AllocsPerRun(100, func() { kindOfBytes(wire.JSON, data, last) }))
}
