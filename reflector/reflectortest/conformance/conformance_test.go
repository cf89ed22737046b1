package conformance_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInMemory(t *testing.T) {
	t.Parallel()
	run(t)
}

func TestInMemoryWithShards(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) *rest.Config {
		s := reflectortest.Start(t, reflectortest.WithDefaults())
		s.SetSharding(true)
		return s.Config()
	}, conformance.Options{Sharding: true})
}

func TestOnPort(t *testing.T) {
	t.Parallel()
	run(t, reflectortest.OnPort())
}

func run(t *testing.T, opts ...reflectortest.Option) {
	opts = append(opts, reflectortest.WithDefaults(), reflectortest.WithCustomResourceDefinitions(), reflectortest.WithResource(conformance.Widget), reflectortest.WithDefinition(conformance.Gadgets, nil))
	var servers sync.Map // by the name of the table's test
	conformance.Run(t, func(t *testing.T) *rest.Config {
		s := reflectortest.Start(t, opts...)
		servers.Store(t.Name(), s)
		return s.Config()
	}, conformance.Options{
		Widgets:     true,
		Definitions: true,
		Compact: func(t *testing.T, version string) {
			v, err := strconv.ParseUint(version, 10, 64)
			require.NoError(t, err)
			s, _ := servers.Load(t.Name())
			require.NoError(t, s.(*reflectortest.Server).Compact(v))
		},
	})
}
