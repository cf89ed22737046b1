package apiserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/binaries"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// connect returns a client whose connections end with the test.
func connect(t *testing.T, s *Server) kubernetes.Interface {
	t.Helper()
	http, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	t.Cleanup(http.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(s.Config(), http)
	require.NoError(t, err)
	return client
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "value"}}
}

func TestAServerKeepsWhatItIsGiven(t *testing.T) {
	server := shared.Server(t)
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))

	made, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	got, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, made.UID, got.UID)
	require.Equal(t, map[string]string{"key": "value"}, got.Data)

	all, err := configMaps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, all.Items, 1, "nobody else puts anything into a test's namespace")
}

func TestAServerIsTheVersionThatTheModuleOfTheControlPlaneRequires(t *testing.T) {
	found, err := binaries.Find(t.Context())
	require.NoError(t, err)
	if found.Version == "" {
		t.Skip("KUBEBUILDER_ASSETS is set: it may be any version")
	}
	version, err := connect(t, shared.Server(t)).Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, found.Version, version.GitVersion)
	require.True(t, strings.HasPrefix(found.Version, "v"+version.Major+"."+version.Minor+"."), "%+v", version)
}

func TestEachTestHasItsOwnNamespace(t *testing.T) {
	server := shared.Server(t)
	require.NotEqual(t, server.Namespace(t), server.Namespace(t))
}

func TestAConfigIsTheCallersOwnAndIsNotThrottled(t *testing.T) {
	server := shared.Server(t)
	require.Negative(t, server.Config().QPS)
	server.Config().Host = "changed"
	require.NotEqual(t, "changed", server.Config().Host)
}

func TestFlagsReachTheServer(t *testing.T) {
	folder := t.TempDir()
	policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))

	server := Start(t, Options{APIServerFlags: map[string][]string{
		"audit-policy-file": {policy},
		"audit-log-path":    {log},
	}})
	namespace := server.Namespace(t)
	_, err := connect(t, server).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Stop(), "the log is complete when the server has ended")
	require.NoError(t, server.Stop(), "a second Stop does nothing")
	require.NoDirExists(t, server.folder)

	audit, err := os.ReadFile(log)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(audit), namespace), "the audit log has %d bytes, but not the request", len(audit)) // Contains would print them
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := New(t.Context(), Options{APIServerFlags: map[string][]string{"no-such-flag": {"1"}}})
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	require.ErrorContains(t, err, "The end of the log of etcd")
}

func TestStartingEndsWithItsContextAndItsCause(t *testing.T) {
	errNoTime := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNoTime)
	_, err := New(ctx, Options{})
	require.ErrorIs(t, err, errNoTime)
	require.ErrorContains(t, err, "attempts: 1")
}

var shared Shared

func TestMain(m *testing.M) {
	if os.Getenv(forgetfulVariable) != "" {
		forgetful()
	}
	goleak.VerifyTestMain(shared.Tests(m))
}

type exitCode int

func (c exitCode) Run() int { return int(c) }

func TestSharedThatNoTestAskedForStartsNothing(t *testing.T) {
	var unused Shared
	require.Equal(t, 0, unused.Tests(exitCode(0)).Run())
	require.Equal(t, 2, unused.Tests(exitCode(2)).Run())
	require.Nil(t, unused.server)
}

func TestSharedIsOneServerThatEndsWithTheTests(t *testing.T) {
	var own Shared
	server := own.Server(t)
	require.Same(t, server, own.Server(t))
	require.Equal(t, 1, own.Tests(exitCode(1)).Run())
	require.NoDirExists(t, server.folder)
}

// Both outages in one test: a server of its own takes a few seconds to start.
func TestWhatAServerKeepsSurvivesTheEndOfItsPrograms(t *testing.T) {
	server := Start(t, Options{})
	before := server.Config()
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))
	made, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	requireKept := func() {
		t.Helper()
		got, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, made.UID, got.UID)
		require.Equal(t, made.ResourceVersion, got.ResourceVersion)
	}

	require.NoError(t, server.KillAPIServer())
	_, err = configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	require.Error(t, err)
	require.Error(t, server.KillAPIServer(), "there is none to kill")
	require.NoError(t, server.StartAPIServer())
	requireKept()

	require.NoError(t, server.KillEtcd())
	require.NoError(t, server.StartEtcd())
	requireKept()
	require.Equal(t, before, server.Config())
}

func TestAReplicaSharesEtcdAndOutlivesTheServer(t *testing.T) {
	server := Start(t, Options{})
	replica := server.StartReplica(t)
	require.NotEqual(t, server.Config().Host, replica.Config().Host)
	made, err := connect(t, server).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, server.KillAPIServer())
	got, err := connect(t, replica).CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, made.UID, got.UID)
	require.NoError(t, replica.KillAPIServer())
	require.NoError(t, replica.StartAPIServer())
}

func TestAPausedServerAnswersLater(t *testing.T) {
	server := shared.Server(t)
	client := connect(t, server).CoreV1().ConfigMaps("default")
	for _, pause := range []func() (func() error, error){server.PauseAPIServer, server.PauseEtcd} {
		resume, err := pause()
		require.NoError(t, err)
		t.Cleanup(func() { _ = resume() }) // if the test fails before it resumes
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = client.List(ctx, metav1.ListOptions{})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, resume())
		_, err = client.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
	}
}

func TestARestoredServerHasLostWhatWasWrittenSince(t *testing.T) {
	server := Start(t, Options{})
	client := connect(t, server).CoreV1().ConfigMaps("default")
	before, err := client.Create(t.Context(), configMap("before"), metav1.CreateOptions{})
	require.NoError(t, err)
	saved := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, server.SaveEtcd(saved))
	after, err := client.Create(t.Context(), configMap("after"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, client.Delete(t.Context(), "before", metav1.DeleteOptions{}))

	require.NoError(t, server.KillAPIServer())
	require.NoError(t, server.RestoreEtcd(saved))
	require.NoError(t, server.StartAPIServer())
	got, err := client.Get(t.Context(), "before", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before, got)
	_, err = client.Get(t.Context(), "after", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v; it was made as %s", err, after.ResourceVersion)
}

func TestAServerWhoseProgramsAreDeadCanBeStopped(t *testing.T) {
	server := Start(t, Options{})
	require.NoError(t, server.KillAPIServer())
	require.NoError(t, server.KillEtcd())
	require.NoError(t, server.Stop())
	require.NoDirExists(t, server.folder)
}

// forgetfulVariable makes this test binary a process that starts a program and stops nothing; its value is the folder.
const forgetfulVariable = "KUBEREFLECTOR_TEST_FORGETFUL"

// forgetful does what newServer does, with a program that holds its standard output open for as long as it lives.
func forgetful() {
	die := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	folder := os.Getenv(forgetfulVariable)
	tail, err := exec.LookPath("tail")
	die(err)
	p, err := newProgram(folder, tail)
	die(err)
	_, err = startWatchdog(folder, p.pidFile, p.pidFile+" of what was never started")
	die(err)
	cmd := exec.Command(p.launcher, "-n", "+1", "-f", writeLine(folder, die))
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as envtest does
	die(cmd.Start())
	die(cmd.Wait())
}

// writeLine makes a file that tells whoever reads what tail writes that tail is there.
func writeLine(folder string, die func(error)) string {
	path := folder + "/line"
	die(os.WriteFile(path, []byte("ready\n"), 0o600))
	return path
}

func TestWhatIsLeftBehindByKilledTestsIsEnded(t *testing.T) {
	folder, err := os.MkdirTemp(t.TempDir(), "it's a folder ")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), forgetfulVariable+"="+folder)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	cmd.Stdout = write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	output := bufio.NewReader(read)
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	require.NoError(t, cmd.Process.Kill())
	// The end of the output is the end of the last process that has it open: the program's.
	_, err = io.Copy(io.Discard, output)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) }, time.Minute, 10*time.Millisecond)
}

func TestAWatchdogThatIsStoppedLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	w, err := startWatchdog(folder, folder+"/none.pid")
	require.NoError(t, err)
	require.NoError(t, w.stop())
	require.NoDirExists(t, folder)
}

func TestALauncherBecomesItsProgram(t *testing.T) {
	folder, err := os.MkdirTemp(t.TempDir(), `"$(false)' `)
	require.NoError(t, err)
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	p, err := newProgram(folder, sh)
	require.NoError(t, err)
	output, err := exec.CommandContext(t.Context(), p.launcher, "-c", `echo "$$ $1"`, "name", "two  words").Output()
	require.NoError(t, err)
	pid, err := os.ReadFile(p.pidFile)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(pid))+" two  words\n", string(output))
	require.NoError(t, p.close())
}

func TestWhatIsForgottenIsExpired(t *testing.T) {
	server := Start(t, Options{})
	configMaps := connect(t, server).CoreV1().ConfigMaps(server.Namespace(t))
	old, err := configMaps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = configMaps.Create(t.Context(), configMap("b"), metav1.CreateOptions{})
	require.NoError(t, err)
	atOld := metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	watchFrom := func(resourceVersion string) watch.Event {
		t.Helper()
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: resourceVersion})
		require.NoError(t, err)
		defer w.Stop()
		return <-w.ResultChan()
	}

	list, err := configMaps.List(t.Context(), atOld)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	require.NoError(t, server.CompactEtcd(t.Context(), ""))
	require.Equal(t, watch.Added, watchFrom(old.ResourceVersion).Type, "kube-apiserver remembers what etcd does not")
	require.ErrorContains(t, server.CompactEtcd(t.Context(), old.ResourceVersion), "compacted", "there is nothing to forget")

	newest, err := configMaps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Forget(t.Context()))
	_, err = configMaps.List(t.Context(), atOld)
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	for _, each := range []string{old.ResourceVersion, newest.ResourceVersion} {
		event := watchFrom(each)
		require.Equal(t, watch.Error, event.Type)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
	}
	kept, err := configMaps.Get(t.Context(), "b", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "b", kept.Name)
}
