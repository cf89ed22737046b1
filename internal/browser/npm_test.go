package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// npmFile returns a file of a package of the npm registry. checksum is the package's SHA-512. npm
// keeps the package in its cache.
func npmFile(name, version, checksum, file string) (string, error) {
	folder, err := os.MkdirTemp("", "npm")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	var complaint bytes.Buffer
	pack := exec.Command("npm", "pack", "--silent", "--ignore-scripts", "--prefer-offline", "--pack-destination", folder, name+"@"+version)
	pack.Stderr = &complaint
	pack.Dir = folder
	if err := pack.Run(); errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("these tests need npm: install it, as by: apt-get install npm")
	} else if err != nil {
		return "", fmt.Errorf("npm pack %s@%s: %w: %s", name, version, err, &complaint)
	}
	packed, err := os.ReadFile(filepath.Join(folder, name+"-"+version+".tgz"))
	if err != nil {
		return "", err
	}
	if sum := sha512.Sum512(packed); base64.StdEncoding.EncodeToString(sum[:]) != checksum {
		return "", fmt.Errorf("%s@%s has another checksum than the pinned one", name, version)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("%s in %s@%s: %w", file, name, version, err)
		}
		if header.Name == file {
			content, err := io.ReadAll(files)
			return string(content), err
		}
	}
}
