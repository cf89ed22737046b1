package binaries

import (
	"io"
	"os"
)

// openTerminal returns where progress goes. With more than one package go test holds back what a test writes until its package has ended, which is
// when nobody needs to read any more that a build goes on; the terminal itself it cannot hold back.
func openTerminal() (terminal io.Writer, closeTerminal func()) {
	file, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return os.Stderr, func() {}
	}
	return file, func() { _ = file.Close() }
}
