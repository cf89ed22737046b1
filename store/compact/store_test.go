package compact_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/kubereflector/kubereflector/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
		s := compact.New(storetest.ClusterKey)
		return s, s
	})
}
