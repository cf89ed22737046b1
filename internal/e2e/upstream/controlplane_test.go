package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// controlPlaneRounds is the variable that runs TestControlPlanePrograms, and says how many rounds of each build.
const controlPlaneRounds = "KUBEREFLECTOR_CONTROLPLANE"

// controlPlanePrograms are the programs, with the packages that lie between the package main and the places where factories are made.
var controlPlanePrograms = []struct {
	name     string
	packages []string
}{
	{"kube-controller-manager", []string{"cmd/kube-controller-manager", "cmd/kube-controller-manager/app"}},
	{"kube-scheduler", []string{"cmd/kube-scheduler", "cmd/kube-scheduler/app", "cmd/kube-scheduler/app/config", "cmd/kube-scheduler/app/options", "pkg/scheduler"}},
}

// TestControlPlanePrograms runs kube-controller-manager and kube-scheduler on a kube-apiserver under a load, by turns as they are and with the factories of
// this library. It fails if a phase of the load does not come to its end. The table that it prints is a measurement of the machine, so it is no check. The
// folders of artifacts have the logs of the programs, and profiles of the rolling update.
func TestControlPlanePrograms(t *testing.T) {
	skipUnderRace(t)
	rounds, _ := strconv.Atoi(os.Getenv(controlPlaneRounds))
	if rounds == 0 {
		t.Skip("SKIPPED: it takes ten minutes, and the first build five more; with it, for two rounds with profiles: " + controlPlaneRounds +
			"=2 go test -C internal/e2e -timeout 2h -v -artifacts -outputdir /tmp -run '^TestControlPlanePrograms$' ./upstream")
	}
	if !exists("/proc/self/stat") {
		t.Skip("SKIPPED: the CPU time of programs is read from /proc, which this system has not")
	}
	k := newKubernetes(t)
	k.source = filepath.Dir(filepath.Dir(k.source))
	folders := map[string]string{"stock": filepath.Join(k.folder, "stock"), "ours": filepath.Join(k.folder, "ours")}
	for _, p := range controlPlanePrograms {
		main := "./" + k.copyProgram(t, p.packages)
		for name, pkg := range map[string]string{"stock": "k8s.io/kubernetes/" + p.packages[0], "ours": main} {
			runGo(t, k.folder, "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folders[name], p.name), pkg)
		}
	}
	results := map[string][]usage{}
	for round := range rounds {
		order := []string{"stock", "ours"}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, name := range order {
			require.True(t, t.Run(fmt.Sprintf("%s-%d", name, round+1), func(t *testing.T) {
				results[name] = append(results[name], runControlPlane(t, folders[name], name == "ours"))
			}))
		}
		fmt.Print(controlPlaneTable(results))
	}
}

// copyProgram copies the packages of a program with changed imports: of factories, and of each other. It returns the package main.
func (k kubernetesCopies) copyProgram(t *testing.T, packages []string) (main string) {
	t.Helper()
	changed := 0
	for _, name := range packages {
		to := filepath.Join(k.folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(to, 0o755))
		files, err := filepath.Glob(filepath.Join(k.source, filepath.FromSlash(name), "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			text, places := replaceFactories(string(content))
			changed += places
			for _, other := range packages {
				text = strings.ReplaceAll(text, strconv.Quote("k8s.io/kubernetes/"+other), strconv.Quote("controllers/"+other))
			}
			require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(text), 0o644))
		}
	}
	require.NotZero(t, changed, "imports of factories in %s", packages)
	return packages[0]
}

// usage is what the programs of one round used: for each program and phase, in the order of the load.
type usage map[string]map[string]spent

// spent are figures of one phase, or of a moment: what was spent since the start.
type spent struct {
	cpu, wall float64 // seconds
	writes    float64 // requests that are no reads
	peak      float64 // MiB of resident memory, since the start
}

func (s spent) since(before spent) spent {
	return spent{s.cpu - before.cpu, s.wall - before.wall, s.writes - before.writes, s.peak}
}

// runControlPlane runs one round with the programs of a folder, on a server of its own.
func runControlPlane(t *testing.T, folder string, ours bool) usage {
	server := apiserver.Start(t, apiserver.Options{})
	l := newLoad(t, server.Config())
	used := usage{}
	var running []*process
	for _, p := range controlPlanePrograms {
		running = append(running, startProcess(t, filepath.Join(folder, p.name), server.Kubeconfig(t)))
		used[p.name] = map[string]spent{}
	}
	before := make([]spent, len(running))
	for _, phase := range l.phases() {
		stop := func() {}
		if phase.name == rollingUpdate {
			stop = profile(t, running)
		}
		phase.run()
		l.await(phase.name, phase.left)
		for i, p := range running {
			used[p.name][phase.name] = p.spent(t).since(before[i])
		}
		stop()
		for i, p := range running {
			before[i] = p.spent(t)
		}
		t.Logf("%s ended; watches that the server ended because they were slow: %s", phase.name, l.slowWatches())
	}
	for _, p := range running {
		goroutines, err := p.get(t.Context(), "/debug/pprof/goroutine?debug=1")
		require.NoError(t, err)
		assert.Equal(t, ours, bytes.Contains(goroutines, []byte(rootModule+"/reflector.")), "%s runs reflectors of this library", p.name)
		log, err := os.ReadFile(p.log)
		require.NoError(t, err)
		assert.NotContains(t, string(log), "client-go's informer is used", p.name)
		if early := bytes.Count(log, []byte("informer cache is out of date")); early > 0 {
			t.Logf("%s found a cache behind its own writes, and waited: %d times", p.name, early)
		}
	}
	return used
}

// process is a running program.
type process struct {
	name, address, log string
	id                 int
	started            time.Time
	client             *http.Client
}

// startProcess starts a program without a leader election and without limits of requests. It ends with the test.
func startProcess(t *testing.T, program, kubeconfig string) *process {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p := &process{
		name: filepath.Base(program), address: "https://127.0.0.1:" + port, started: time.Now(),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}},
	}
	p.log = filepath.Join(t.ArtifactDir(), p.name+".log")
	log, err := os.Create(p.log)
	require.NoError(t, err)
	command := exec.Command(program, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--kube-api-qps=10000", "--kube-api-burst=10000",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+t.TempDir(), "--authorization-always-allow-paths=/healthz,/metrics,/debug/pprof/*")
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	p.id = command.Process.Pid
	// However the tests end, the system closes the input of the watchdog, which then ends the program.
	watchdog := exec.Command("/bin/sh", "-c", "while read -r _; do :; done; kill -KILL $0", strconv.Itoa(p.id))
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt must not end it
	live, err := watchdog.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, watchdog.Start())
	t.Cleanup(func() {
		_ = watchdog.Process.Kill()
		_ = watchdog.Wait()
		_ = live.Close()
		_ = command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		kill.Stop()
		_ = log.Close()
		if text, err := os.ReadFile(p.log); t.Failed() && err == nil {
			lines := strings.Split(string(text), "\n")
			t.Logf("the last lines of %s:\n%s", p.name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	require.Eventually(t, func() bool {
		_, err := p.get(t.Context(), "/healthz")
		return err == nil
	}, 2*time.Minute, 100*time.Millisecond, "%s is not healthy", p.name)
	return p
}

func (p *process) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}

var (
	peakMemory    = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	writeRequests = regexp.MustCompile(`(?m)^rest_client_requests_total\{.*method="(?:POST|PUT|PATCH|DELETE)".*\} (\S+)$`)
)

// spent returns what the program has used since its start.
func (p *process) spent(t *testing.T) spent {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.id))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may have spaces
	const ticks = 100                                                         // a second, on all platforms that Go supports
	s := spent{cpu: (number64(t, fields[11]) + number64(t, fields[12])) / ticks, wall: time.Since(p.started).Seconds()}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.id))
	require.NoError(t, err)
	s.peak = number64(t, string(peakMemory.FindSubmatch(status)[1])) / 1024
	metrics, err := p.get(t.Context(), "/metrics")
	require.NoError(t, err)
	for _, of := range writeRequests.FindAllSubmatch(metrics, -1) {
		s.writes += number64(t, string(of[1]))
	}
	return s
}

func number64(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return n
}

// profile writes profiles of the CPU, each of some seconds, until it is stopped. go tool pprof adds up all that it gets.
func profile(t *testing.T, running []*process) (stop func()) {
	t.Helper()
	folder := t.ArtifactDir()
	ended := make(chan struct{})
	done := make(chan error, len(running))
	for _, p := range running {
		go func() {
			var err error
			for i := 0; err == nil; i++ {
				select {
				case <-ended:
					done <- nil
					return
				default:
				}
				var content []byte
				if content, err = p.get(t.Context(), "/debug/pprof/profile?seconds=5"); err == nil {
					err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%02d.pb.gz", p.name, i)), content, 0o644)
				}
			}
			done <- err
		}()
	}
	return func() {
		close(ended)
		for range running {
			require.NoError(t, <-done)
		}
	}
}

// controlPlaneTable shows the means of the rounds.
func controlPlaneTable(results map[string][]usage) string {
	mean := func(name, program, phase string, of func(spent) float64) (sum float64) {
		for _, round := range results[name] {
			sum += of(round[program][phase]) / float64(len(results[name]))
		}
		return sum
	}
	var b strings.Builder
	b.WriteString("\n| program | phase | CPU s, stock | CPU s, ours | ratio | writes, stock | writes, ours | s, stock | s, ours |\n|--|--|--|--|--|--|--|--|--|\n")
	for _, p := range controlPlanePrograms {
		for _, phase := range loadPhases {
			fmt.Fprintf(&b, "| %s | %s |", p.name, phase)
			cpu := func(s spent) float64 { return s.cpu }
			stock, ours := mean("stock", p.name, phase, cpu), mean("ours", p.name, phase, cpu)
			fmt.Fprintf(&b, " %.2f | %.2f | %.2f |", stock, ours, ours/stock)
			for _, of := range []func(spent) float64{func(s spent) float64 { return s.writes }, func(s spent) float64 { return s.wall }} {
				fmt.Fprintf(&b, " %.0f | %.0f |", mean("stock", p.name, phase, of), mean("ours", p.name, phase, of))
			}
			b.WriteString("\n")
		}
		peak := func(s spent) float64 { return s.peak }
		last := loadPhases[len(loadPhases)-1]
		stock, ours := mean("stock", p.name, last, peak), mean("ours", p.name, last, peak)
		fmt.Fprintf(&b, "| %s | peak of RSS, MiB | %.0f | %.0f | %.2f | | | | |\n", p.name, stock, ours, ours/stock)
	}
	return b.String()
}
