package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// The modules that go.mod pins; all that this package knows of versions is read from there.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// recipe holds all inputs that determine the output of a build.
type recipe struct {
	source           string // the folder of the module
	goMod, goSum     []byte
	kubernetes, etcd string // versions
	toolchain        string
	goos, goarch     string
}

func readRecipe(source string) (*recipe, error) {
	r := &recipe{source: source, toolchain: runtime.Version(), goos: runtime.GOOS, goarch: runtime.GOARCH}
	path := filepath.Join(source, "go.mod")
	var err error
	if r.goMod, err = os.ReadFile(path); err != nil {
		return nil, fmt.Errorf("read what the control plane is built from: %w", err)
	}
	if r.goSum, err = os.ReadFile(filepath.Join(source, "go.sum")); err != nil {
		return nil, fmt.Errorf("read what the control plane is built from: %w", err)
	}
	parsed, err := modfile.Parse(path, r.goMod, nil)
	if err != nil {
		return nil, fmt.Errorf("read the versions of the control plane: %w", err)
	}
	for _, require := range parsed.Require {
		switch require.Mod.Path {
		case kubernetesModule:
			r.kubernetes = require.Mod.Version
		case etcdModule:
			r.etcd = require.Mod.Version
		}
	}
	if r.kubernetes == "" || r.etcd == "" {
		return nil, fmt.Errorf("%s does not require both %s and %s; its README.md says how it is kept", path, kubernetesModule, etcdModule)
	}
	return r, nil
}

// arguments returns the arguments of the go command, except the output folder.
func (r *recipe) arguments() []string {
	// A build that is not Kubernetes' own calls itself v0.0.0-master, on which clients that look at the version take wrong turns.
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(r.kubernetes), "v"), ".")
	const version = "-X k8s.io/component-base/version."
	return []string{
		"build",
		"-mod=readonly",       // GOFLAGS may ask for a vendor folder or for an edit of go.mod
		"-buildvcs=false",     // git refuses clones that another user owns, as in containers
		"-trimpath",           // the clone's path would end up in binaries that other clones share
		"-ldflags", "-s -w " + // no debug information
			version + "gitVersion=" + r.kubernetes + " " + version + "gitMajor=" + major + " " + version + "gitMinor=" + minor,
		"tool",
	}
}

// key returns the folder name of the recipe's output. Recipes that differ in any part have
// different keys.
func (r *recipe) key() string {
	sum := sha256.New()
	add(sum, r.goMod)
	add(sum, r.goSum)
	for _, part := range append([]string{r.toolchain, r.goos, r.goarch}, r.arguments()...) {
		add(sum, []byte(part))
	}
	return r.kubernetes + "-" + hex.EncodeToString(sum.Sum(nil))[:16]
}

// add writes a part with its length, so that what moves from the end of one part to the start of the next changes the sum.
func add(sum hash.Hash, part []byte) {
	fmt.Fprintf(sum, "%d:", len(part)) // a hash never fails to be written to
	sum.Write(part)
}
