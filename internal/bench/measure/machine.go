package measure

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

const peer = "k8s.io/client-go"

// Machine says in one line what the figures were measured on: platform, Go, CPUs, and the version of the peer.
func Machine() string {
	line := fmt.Sprintf("%s/%s, %s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU())
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return line
	}
	for _, module := range build.Deps {
		if module.Path == peer {
			return fmt.Sprintf("%s, client-go %s", line, module.Version)
		}
	}
	return line
}
