package protocol

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
)

// mode is a way to get the first state.
type mode struct {
	name string
	opts []reflector.Option
	// kind is that of the request that begins a full list, of a server that can answer it.
	kind kind
}

var modes = []mode{
	{"watch-list", nil, watchList},
	{"list and watch", []reflector.Option{reflector.WithoutWatchList()}, list},
}

var (
	shared           apiserver.Shared
	withoutWatchList = apiserver.Shared{Options: apiserver.Options{APIServerFlags: map[string][]string{
		"feature-gates": {"WatchList=false"},
	}}}
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(withoutWatchList.Tests(m))) }

// eachMode runs a scenario once a mode, on the server that they all share.
func eachMode(t *testing.T, scenario func(*world)) {
	t.Helper()
	eachModeOn(t, &shared, scenario)
}

func eachModeOn(t *testing.T, server *apiserver.Shared, scenario func(*world)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { scenario(newWorld(t, server.Server(t), m)) })
	}
}
