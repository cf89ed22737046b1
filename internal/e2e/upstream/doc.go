// Package upstream runs the test suites of other projects on informers of this library, and builds public operators with its caches. It has no code of
// its own.
//
//   - controller-runtime: all specs of pkg/cache, with the constructors of contrib/controllerruntime, on a real kube-apiserver.
//   - client-go: the tests of tools/cache that need nothing but exported names, with the constructors replaced.
//   - Kubernetes: the unit tests of its controllers, with the import of the factories replaced. Their version is the one of internal/controlplane. Usually
//     seven packages are tested; the variable KUBEREFLECTOR_KUBERNETES names others, or all. testdata/kubernetes.md has the result of all.
//   - Kubernetes: its garbage collector runs as a program on a kube-apiserver, and leaves what the one of reflectortest leaves.
//   - Kubernetes: its controller of StatefulSets runs there, too, and does to pods and claims what the player of controller/simulate does.
//   - Kubernetes: kube-controller-manager and kube-scheduler run as programs on a kube-apiserver under a load, as they are and with our factories. They
//     have to finish each phase of the load, and a table compares what they use. The variable KUBEREFLECTOR_CONTROLPLANE starts this.
//   - trust-manager, an operator of ConfigMaps and Secrets, and cluster-api, an operator of many kinds: their managers get the line
//     NewCache: controllerruntime.NewCache. The programs build.
//   - JobSet, an operator of Jobs, is played under disturbances by package jobset, and others by the modules in testdata/operators, each of which is run
//     by the command in its comment.
//   - Public programs get a changed import or line, and run their own tests before and after. Only the variable KUBEREFLECTOR_ADOPTION starts this;
//     testdata/adoption.json has the programs and the results.
//   - The bugs of JobSet and of the operators of contrib/controllerruntime/simulated are looked for by tests on a fake client and on a kube-apiserver,
//     to compare these with controller/simulate. This is a measurement that only the variable KUBEREFLECTOR_COMPARE starts.
//
// The suites are those of the versions that go.mod of internal/e2e requires. The tests copy them out of the module cache, change them in a temporary
// folder and build them there with the sums of internal/e2e/go.sum. Operators have their own go.mod, whose versions rise to those that
// contrib/controllerruntime requires. Nothing of other projects is in this repository.
//
// Each suite has a list of what must pass, and of what differs with the reason. A test that is not in a list fails, as does one that is in a list and
// does not run. Under the race detector the tests are skipped: the build would take minutes.
//
//	go test -C internal/e2e ./upstream/...
package upstream
