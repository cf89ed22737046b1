// Package apiserver runs a real kube-apiserver with its etcd for tests.
//
// # Usage
//
// A test that needs a server for itself, because it gives it flags or does it harm, starts one:
//
//	server := apiserver.Start(t, apiserver.Options{})
//	client, err := kubernetes.NewForConfig(server.Config())
//
// Tests that only need some server share one for their package, which saves a few seconds a test. Each makes namespaces of its own:
//
//	var shared apiserver.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }
//
//	func TestSomething(t *testing.T) {
//		server := shared.Server(t)
//		namespace := server.Namespace(t)
//		...
//	}
//
// # What can be relied upon
//
//   - A started server answers, and its namespace default exists.
//   - Its address, its certificates and its data belong to the [Server], not to a process: after [Server.KillAPIServer] and
//     [Server.StartAPIServer], or the same for etcd, clients find everything where it was.
//   - [Server.StartReplica] adds a second kube-apiserver, [Server.PauseAPIServer] has one answer nothing for a while, and [Server.RestoreEtcd]
//     takes back what was written since [Server.SaveEtcd].
//   - [Server.Stop] ends both programs and removes their files. If the tests end without it, by a panic, a timeout or a kill, a watchdog does it.
//
// # What is different from a cluster
//
//   - There is no controller manager: a deleted namespace stays in phase Terminating for ever, nothing is garbage collected, and no namespace gets
//     its kube-root-ca.crt or its default service account. Pods can be created (the ServiceAccount admission plugin is off) but nothing runs them.
//   - etcd does not wait for its disk. A killed etcd loses nothing, as the system still has what it wrote; a killed machine would.
//   - [Server.Config] is an administrator's, and is not throttled.
//
// It works on Unix only. Package binaries says where the programs come from.
package apiserver
