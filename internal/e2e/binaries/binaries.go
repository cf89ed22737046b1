package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// assetsVariable is the environment variable of envtest that names the folder of ready-made
// binaries.
const assetsVariable = "KUBEBUILDER_ASSETS"

// The files of a complete folder of binaries, under the names that envtest gives them too.
const (
	apiServerName = "kube-apiserver"
	etcdName      = "etcd"
)

// Binaries are the programs of a control plane.
type Binaries struct {
	// APIServer and Etcd are the absolute paths of the two programs.
	APIServer, Etcd string

	// Version is the version of Kubernetes that they were built from, such as v1.36.3. It is empty if they come from KUBEBUILDER_ASSETS.
	Version string
}

// Find returns the binaries. It builds them first if they do not exist. The caller must run within
// a clone of the repository, as every test does, unless KUBEBUILDER_ASSETS is set. Find reports its
// progress to the terminal, or to standard error if there is no terminal.
func Find(ctx context.Context) (*Binaries, error) {
	if folder := os.Getenv(assetsVariable); folder != "" {
		return ready(folder)
	}
	working, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	source, err := findSource(working)
	if err != nil {
		return nil, err
	}
	recipe, err := readRecipe(source)
	if err != nil {
		return nil, err
	}
	userCache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a place to keep the control plane's binaries: %w; set HOME or XDG_CACHE_HOME, or %s to a folder that has them", err, assetsVariable)
	}
	progress, closeProgress := openTerminal()
	defer closeProgress()
	c := &cache{root: filepath.Join(userCache, "kubereflector", "controlplane"), progress: progress}
	folder, err := c.folder(ctx, recipe.key(), func(ctx context.Context, into string) error {
		return recipe.build(ctx, into, progress, c.root)
	})
	if err != nil {
		return nil, err
	}
	found := in(folder)
	found.Version = recipe.kubernetes
	return found, nil
}

// ready implements Find for a folder of existing binaries.
func ready(folder string) (*Binaries, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("%s=%q: %w", assetsVariable, folder, err)
	}
	if err := complete(absolute); err != nil {
		return nil, fmt.Errorf("%s is set to %q, which cannot be used: %w; put %s and %s there, or unset it to have them built",
			assetsVariable, folder, err, apiServerName, etcdName)
	}
	return in(absolute), nil
}

func in(folder string) *Binaries {
	return &Binaries{APIServer: filepath.Join(folder, apiServerName), Etcd: filepath.Join(folder, etcdName)}
}

// complete returns an error if a folder lacks one of the binaries.
func complete(folder string) error {
	for _, name := range []string{apiServerName, etcdName} {
		info, err := os.Stat(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it has no %s: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || info.Size() == 0 {
			return fmt.Errorf("its %s is not a program (mode %v, %d bytes)", name, info.Mode(), info.Size())
		}
	}
	return nil
}
