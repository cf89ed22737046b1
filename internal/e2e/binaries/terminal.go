package binaries

import (
	"io"
	"os"
)

// openTerminal returns the writer for progress messages. With more than one package, go test holds
// back the output of a test until its package has ended. Progress messages would then come too
// late, so they go to the terminal itself.
func openTerminal() (terminal io.Writer, closeTerminal func()) {
	file, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return os.Stderr, func() {}
	}
	return file, func() { _ = file.Close() }
}
