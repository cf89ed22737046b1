package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestExamplesWatchARealCluster runs two examples as their reader would, with a kubeconfig, until Ctrl-C.
func TestExamplesWatchARealCluster(t *testing.T) {
	server := shared.Server(t)
	clientset := newClientset(t, server)
	kubeconfig := writeKubeconfig(t, server.Config())
	create(t, clientset, "default", "seen-by-an-example")

	for _, tc := range []struct {
		name string
		args []string
		env  string
		line string
	}{
		{"configmaps", []string{"-kubeconfig", kubeconfig}, "", "default/seen-by-an-example appeared with map[name:seen-by-an-example]"},
		{"pods", nil, "KUBECONFIG=" + kubeconfig, "(the late subscriber joins)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), tc.name)
			build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/"+tc.name)
			build.Dir = filepath.Join("..", "..")
			output, err := build.CombinedOutput()
			require.NoError(t, err, string(output))

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			example := exec.CommandContext(ctx, program, tc.args...)
			example.Env = append(os.Environ(), "KUBECONFIG=", tc.env)
			example.Stderr = os.Stderr
			out, err := example.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, example.Start())
			var lines []string
			for scanner := bufio.NewScanner(out); scanner.Scan(); {
				lines = append(lines, scanner.Text())
				if scanner.Text() == tc.line {
					require.NoError(t, example.Process.Signal(os.Interrupt))
				}
			}
			assert.NoError(t, example.Wait(), "Ctrl-C is a good end")
			assert.Contains(t, lines, tc.line, strings.Join(lines, "\n"))
		})
	}
}

func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	c := clientcmdapi.NewConfig()
	c.Clusters["e2e"] = &clientcmdapi.Cluster{Server: "https://" + strings.TrimPrefix(config.Host, "https://"), CertificateAuthorityData: config.CAData}
	c.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e"}
	c.CurrentContext = "e2e"
	require.NoError(t, clientcmd.WriteToFile(*c, file))
	return file
}
