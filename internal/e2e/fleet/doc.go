// Package fleet tests informer/fleet against a real kube-apiserver: definitions come and go, versions are
// not served for a while, and the server is killed, while owners want and leave kinds.
//
//	go test -C internal/e2e ./fleet -v -fleet.kinds=100 -fleet.duration=5m
package fleet
