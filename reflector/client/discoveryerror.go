package client

import (
	"fmt"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DiscoveryError means that discovery gave no answer, so that a client of [For] does not know the
// resource of its kind and cannot send its request. The client asks again with the next request. An
// error of a REST mapper becomes a DiscoveryError as well. apierrors.IsForbidden and similar functions
// recognize the server's answer.
//
// If the server answers that it does not serve the kind, the error is [reflector.ErrNotServed]
// instead.
type DiscoveryError struct {
	// Kind is the kind whose resource the client needs.
	Kind schema.GroupVersionKind
	// Path is the path that was read, such as "/apis/apps/v1". It is empty if a REST mapper asked.
	Path string
	// Err is why there is no answer.
	Err error
}

// Error names the kind, the path and the cause. If the server forbids the request, it names the
// missing permission.
func (e *DiscoveryError) Error() string {
	text := fmt.Sprintf("discovery of %s", e.Kind)
	if e.Path != "" {
		text += ": get " + e.Path
	}
	text = stream.Cut(fmt.Sprintf("%s: %v", text, e.Err), discoveryText)
	switch {
	case !apierrors.IsForbidden(e.Err):
		return text
	case e.Path == "":
		return text + ": allow the verb get on the nonResourceURLs of discovery, as the ClusterRole system:discovery does, or use ForResource"
	}
	return text + fmt.Sprintf(": allow the verb get on the nonResourceURL %s, as the ClusterRole system:discovery does, or use ForResource", stream.Cut(e.Path, stream.MaxName))
}

// discoveryText is the most bytes of the error without the advice, so that both have 1 KiB.
const discoveryText = 512

// Unwrap returns Err.
func (e *DiscoveryError) Unwrap() error { return e.Err }
