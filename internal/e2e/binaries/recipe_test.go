package binaries

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const goModFixture = `module ` + sourceModule + `

go 1.26.0

require (
	go.etcd.io/etcd/server/v3 v3.6.8
	k8s.io/kubernetes v1.36.3
)
`

func fixture(t *testing.T, goMod, goSum string) *recipe {
	t.Helper()
	source := t.TempDir()
	writeFile(t, filepath.Join(source, "go.mod"), goMod, 0o644)
	writeFile(t, filepath.Join(source, "go.sum"), goSum, 0o644)
	r, err := readRecipe(source)
	require.NoError(t, err)
	return r
}

func TestVersionsComeFromGoMod(t *testing.T) {
	r := fixture(t, goModFixture, "")
	require.Equal(t, "v1.36.3", r.kubernetes)
	require.Equal(t, "v3.6.8", r.etcd)
	require.Contains(t, r.arguments(), "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36")
}

func TestAGoModWithoutTheVersionsIsAnError(t *testing.T) {
	source := t.TempDir()
	writeFile(t, filepath.Join(source, "go.mod"), "module "+sourceModule+"\n", 0o644)
	writeFile(t, filepath.Join(source, "go.sum"), "", 0o644)
	_, err := readRecipe(source)
	require.ErrorContains(t, err, "does not require both")
}

func TestTheKeyDoesNotDependOnTheClone(t *testing.T) {
	require.Equal(t, fixture(t, goModFixture, "sums").key(), fixture(t, goModFixture, "sums").key())
}

func TestTheKeyChangesWithWhateverChangesTheBinaries(t *testing.T) {
	change := func(edit func(*recipe)) *recipe {
		r := fixture(t, goModFixture, "sums")
		edit(r)
		return r
	}
	recipes := map[string]*recipe{
		"nothing":      fixture(t, goModFixture, "sums"),
		"go.mod":       fixture(t, goModFixture+"\n// a comment\n", "sums"),
		"go.sum":       fixture(t, goModFixture, "other sums"),
		"boundary":     change(func(r *recipe) { r.goMod, r.goSum = append(r.goMod, 's'), []byte("ums") }),
		"toolchain":    change(func(r *recipe) { r.toolchain += ".1" }),
		"system":       change(func(r *recipe) { r.goos = "plan9" }),
		"architecture": change(func(r *recipe) { r.goarch = "mips" }),
		"arguments":    change(func(r *recipe) { r.kubernetes = "v1.36.4" }),
	}
	keys := map[string]string{}
	for name, r := range recipes {
		key := r.key()
		require.Empty(t, keys[key], "%s has the same key", name)
		keys[key] = name
	}
}

func TestTheKeyBeginsWithTheVersionForPeopleWhoLookIntoTheCache(t *testing.T) {
	require.Regexp(t, `^v1\.36\.3-[0-9a-f]{16}$`, fixture(t, goModFixture, "").key())
}
