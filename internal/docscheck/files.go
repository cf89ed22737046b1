package docscheck

import (
	"io/fs"
	"path"
	"strings"
)

// files returns the paths of all files with an extension.
func files(repository fs.FS, extension string) ([]string, error) {
	var found []string
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()):
			return fs.SkipDir
		case !entry.IsDir() && path.Ext(name) == extension:
			found = append(found, name)
		}
		return nil
	})
	return found, err
}

func skipped(folder string) bool {
	return folder == "testdata" || folder == "vendor" || strings.HasPrefix(folder, ".") && folder != "." && folder != ".github"
}
