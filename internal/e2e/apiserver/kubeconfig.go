package apiserver

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a file with which a program connects as the administrator, and returns its
// path. The file is removed when the test ends.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	return WriteKubeconfig(t, s.Config())
}

// WriteKubeconfig is [Server.Kubeconfig] for any configuration, such as the configuration of a
// proxy in front of a server.
func WriteKubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	address := config.Host
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["e2e"] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: config.CAData}
	c.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e"}
	c.CurrentContext = "e2e"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatalf("write a kubeconfig: %v", err)
	}
	return file
}
