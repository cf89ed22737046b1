package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kubernetesTable says which tests of Kubernetes' controllers pass with our factories.
const kubernetesTable = "testdata/kubernetes.md"

// kubernetesPackages is the variable that names the packages of the table to test, separated by commas, or all.
const kubernetesPackages = "KUBEREFLECTOR_KUBERNETES"

// kubernetesUsual are tested without the variable: those that write to indexers of running informers, or make objects without a name, and others. The
// tests of statefulset do so, too, but take as long as all of these together.
var kubernetesUsual = []string{"daemon", "deployment", "disruption", "job", "replicaset", "volume/attachdetach", "volume/selinuxwarning"}

// factoryImports are the packages of client-go that ours replace, with the name that an import without a name needs.
var factoryImports = []struct{ theirs, ours, name string }{
	{"k8s.io/client-go/informers", rootModule + "/informer/clientgo/factory", "informers "},
	{"k8s.io/client-go/dynamic/dynamicinformer", rootModule + "/informer/clientgo/dynamicinformer", ""},
	{"k8s.io/client-go/metadata/metadatainformer", rootModule + "/informer/clientgo/metadatainformer", ""},
}

// controllers is what the table says about a package.
type controllers struct {
	passed  int               // tests and subtests
	differs map[string]string // tests that are not run, with the reason
}

var (
	kubernetesRow     = regexp.MustCompile(`(?m)^\| ([a-z/.]+) \| (\d+) \| (.*) \|$`)
	kubernetesDiffers = regexp.MustCompile("`(Test[^`]*)`: ([^;]+)")
)

func readKubernetesTable(t *testing.T) map[string]controllers {
	t.Helper()
	content, err := os.ReadFile(kubernetesTable)
	require.NoError(t, err)
	table := map[string]controllers{}
	for _, row := range kubernetesRow.FindAllStringSubmatch(string(content), -1) {
		of := controllers{differs: map[string]string{}}
		of.passed, err = strconv.Atoi(row[2])
		require.NoError(t, err)
		for _, test := range kubernetesDiffers.FindAllStringSubmatch(row[3], -1) {
			of.differs[test[1]] = test[2]
		}
		table[row[1]] = of
	}
	require.Subset(t, slices.Collect(maps.Keys(table)), kubernetesUsual)
	return table
}

// TestKubernetesControllers runs the unit tests of Kubernetes' controllers with one changed import: the factories of this library. The tests write to the
// indexers of informers before and after these start, and start informers of clients that answer nothing. The version of Kubernetes is the one of
// internal/controlplane.
func TestKubernetesControllers(t *testing.T) {
	skipUnderRace(t)
	table := readKubernetesTable(t)
	k := newKubernetes(t)
	packages := kubernetesUsual
	switch named := os.Getenv(kubernetesPackages); named {
	case "":
	case "all":
		packages = slices.Sorted(maps.Keys(table))
		assert.ElementsMatch(t, k.packages(t), packages, "packages whose tests import factories")
	default:
		packages = strings.Split(named, ",")
	}
	for _, name := range packages {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, table, name)
			want := table[name]
			k.copy(t, name)
			arguments := []string{"test", "-vet=off", "-v", "-timeout=20m"}
			if len(want.differs) > 0 {
				arguments = append(arguments, "-skip="+pattern(slices.Sorted(maps.Keys(want.differs))))
			}
			output := runGo(t, k.folder, append(arguments, "./"+name)...)
			assert.Equal(t, want.passed, len(passedTest.FindAll(output, -1)), "tests of %s that passed", name)
		})
	}
}

// kubernetesCopies is a module with copies of packages of Kubernetes.
type kubernetesCopies struct {
	folder string
	source string // the folder pkg/controller
}

func newKubernetes(t *testing.T) kubernetesCopies {
	t.Helper()
	k := kubernetesCopies{folder: t.TempDir()}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "controlplane", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(k.folder, name), content, 0o644))
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	runGo(t, k.folder, "mod", "edit", "-module=controllers", "-require="+rootModule+"@v0.0.0", "-replace="+rootModule+"="+root)
	var info struct{ Dir string }
	require.NoError(t, json.Unmarshal(runGo(t, k.folder, "mod", "download", "-json", "k8s.io/kubernetes"), &info))
	k.source = filepath.Join(info.Dir, "pkg", "controller")
	return k
}

// packages returns the packages whose tests import factories.
func (k kubernetesCopies) packages(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(k.source, func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		content, err := os.ReadFile(file)
		if _, places := replaceFactories(string(content)); places > 0 {
			name, _ := filepath.Rel(k.source, filepath.Dir(file))
			found[filepath.ToSlash(name)] = true
		}
		return err
	}))
	return slices.Sorted(maps.Keys(found))
}

// copy copies a package with the changed imports.
func (k kubernetesCopies) copy(t *testing.T, name string) {
	t.Helper()
	to := filepath.Join(k.folder, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(to, 0o755))
	from := filepath.Join(k.source, filepath.FromSlash(name))
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	require.NoError(t, err)
	changed := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		text, places := replaceFactories(string(content))
		if strings.HasSuffix(file, "_test.go") {
			changed += places
		}
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(text), 0o644))
	}
	require.NotZero(t, changed, "imports of factories in the tests of %s", name)
	if data := filepath.Join(from, "testdata"); len(files) > 0 && exists(data) {
		require.NoError(t, os.CopyFS(filepath.Join(to, "testdata"), os.DirFS(data)))
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// replaceFactories replaces imports, and returns how many.
func replaceFactories(source string) (replaced string, places int) {
	for _, of := range factoryImports {
		clause := regexp.MustCompile(`(?m)^(\t|import )(\w+ )?"` + regexp.QuoteMeta(of.theirs) + `"`)
		source = clause.ReplaceAllStringFunc(source, func(found string) string {
			places++
			parts := clause.FindStringSubmatch(found)
			name := parts[2]
			if name == "" {
				name = of.name
			}
			return fmt.Sprintf("%s%s%q", parts[1], name, of.ours)
		})
	}
	return source, places
}
