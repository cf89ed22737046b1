package reconcile

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
)

// auditPolicy has all writes to Foos and Deployments noted when they are answered.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: example.com}, {group: apps}]
- level: None
`

// auditLog is where a server notes who did what.
type auditLog struct {
	path    string
	options apiserver.Options // of a server that does so
}

func newAuditLog(t *testing.T) auditLog {
	t.Helper()
	folder := t.TempDir()
	policy, path := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	return auditLog{path, apiserver.Options{APIServerFlags: map[string][]string{"audit-policy-file": {policy}, "audit-log-path": {path}}}}
}

// audited is what is of interest in a line of the log.
type audited struct {
	Verb      string
	UserAgent string
	ObjectRef struct{ Resource, Subresource, Name string }

	ResponseStatus struct{ Code int }
}

// String returns what was written, such as "patch foos/status a".
func (a audited) String() string {
	resource := a.ObjectRef.Resource
	if a.ObjectRef.Subresource != "" {
		resource += "/" + a.ObjectRef.Subresource
	}
	return strings.Join([]string{a.Verb, resource, a.ObjectRef.Name}, " ")
}

// writes returns what a program wrote, and how often, and how many of its attempts were refused.
func (l auditLog) writes(t *testing.T, program string) (written map[string]int, refused int) {
	t.Helper()
	file, err := os.Open(l.path)
	require.NoError(t, err)
	defer file.Close()
	written = map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var a audited
		if json.Unmarshal(lines.Bytes(), &a) != nil || !strings.HasPrefix(a.UserAgent, program+"/") {
			continue // a server that is killed leaves half a line
		}
		if a.ResponseStatus.Code >= 300 {
			refused++
			continue
		}
		written[a.String()]++
	}
	require.NoError(t, lines.Err())
	return written, refused
}
