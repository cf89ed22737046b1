// Package binaries provides kube-apiserver and etcd to tests that need real ones.
//
// # Where they come from
//
//   - If KUBEBUILDER_ASSETS is set, that folder's kube-apiserver and etcd are used as they are: nothing is built, checked for its version or cached.
//   - Otherwise they are built from source out of the nested module internal/controlplane, which pins their versions, and are kept in
//     a folder of the user's cache (os.UserCacheDir, kubereflector/controlplane). Its name is a hash of all that decides what comes out of the build:
//     go.mod, go.sum, the platform, the Go version and the build's own arguments. Removing the folder is always safe.
//
// # What can be relied upon
//
//   - A build happens once, however many test packages ask at the same time: they wait for each other through a file lock that ends with its process.
//   - A folder that has its final name is complete. A build that fails, or that is interrupted or killed, leaves no such folder.
//   - What was compiled before an interruption stays in Go's build cache, so the next attempt goes on from there.
//
// # Time
//
// A first build takes about two and a half minutes on two idle cores, and up to eight on a slow machine, so it usually fits into the ten minutes that go test
// gives a package. [Find] gives up when its context ends, so that the reason is an error message and not a panic of the testing
// package. On a slower machine build beforehand, with as much time as it needs:
//
//	go test -C internal/e2e -timeout 30m ./binaries
package binaries
