package upstream

import (
	"path/filepath"
	"testing"
)

// TestOldJobSet runs the tests of package jobset with a version of JobSet that has known bugs. One build
// has one version, and go.mod requires a newer one.
func TestOldJobSet(t *testing.T) {
	skipUnderRace(t)
	b := newBuild(t)
	b.run(t, "mod", "edit", "-require=sigs.k8s.io/jobset@v0.10.1", filepath.Join(b.folder, "go.mod"))
	b.run(t, "test", "-mod=mod", "-vet=off", "-tags=jobset010", "./upstream/jobset")
}
