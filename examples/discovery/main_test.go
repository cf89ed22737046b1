package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestDiscovery(t *testing.T) {
	assert.Equal(t, `# kubectl get --raw /api
  APIVersions
  "v1"
# kubectl get --raw /apis/apps
  APIGroup
  {"groupVersion":"apps/v1","version":"v1"}
# kubectl get --raw /apis/apps/v1
  APIResourceList
  controllerrevisions: kind ControllerRevision, in a namespace: true, 8 verbs
  daemonsets: kind DaemonSet, in a namespace: true, 8 verbs
  daemonsets/status: kind DaemonSet, in a namespace: true, 3 verbs
  deployments: kind Deployment, in a namespace: true, 8 verbs
  deployments/status: kind Deployment, in a namespace: true, 3 verbs
  replicasets: kind ReplicaSet, in a namespace: true, 8 verbs
  replicasets/status: kind ReplicaSet, in a namespace: true, 3 verbs
  statefulsets: kind StatefulSet, in a namespace: true, 8 verbs
  statefulsets/status: kind StatefulSet, in a namespace: true, 3 verbs

# kubectl get deployments, with an empty cache
  GET /api: 200 OK
  GET /apis: 200 OK
  "deployments" is apps/v1, Resource=deployments
  its kind is apps/v1, Kind=Deployment
  its objects have a namespace
  GET /apis/apps/v1/namespaces/default/deployments: 200 OK
  Deployments: 0

# kubectl get deployments, with the cache of the last process
  "deployments" is apps/v1, Resource=deployments
  its kind is apps/v1, Kind=Deployment
  its objects have a namespace
  GET /apis/apps/v1/namespaces/default/deployments: 200 OK
  Deployments: 0

# kubectl get telescopes, which are not installed
  GET /api: 304 Not Modified
  GET /apis: 304 Not Modified
  GET /api: 200 OK
  GET /apis: 200 OK
  no matches for kind "Telescope" in group "example.com"
`, clustertest.Output(t, demo))
}
