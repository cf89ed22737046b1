package apiserver

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
)

var serverProcess = measure.Register("server", func(objects int) error { return runServer(objects, os.Stdin, os.Stdout) })

// Server is a server in a process of its own, from its first use to the end of the run. Other
// comparisons may use one as well.
type Server struct {
	run     *measure.World
	objects int // of each data set
	url     string
	clients int
}

// NewServer returns a server whose data sets have so many objects.
func NewServer(run *measure.World, objects int) *Server { return &Server{run: run, objects: objects} }

// Host returns the root of an API server with one data set, which one client has to itself. The
// server knows watches that begin with the state.
func (s *Server) Host(dataset string) (string, error) { return s.HostIn(dataset, Streams) }

// HostIn is [Server.Host] with the mode [Lists] or [Streams].
func (s *Server) HostIn(dataset, mode string) (string, error) {
	if s.url == "" {
		if err := s.start(); err != nil {
			return "", fmt.Errorf("start a server: %w", err)
		}
	}
	response, err := http.Get(s.url + "/prepare/" + dataset) // so that the client does not wait for it
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("prepare data set %s: %s", dataset, response.Status)
	}
	s.clients++
	return fmt.Sprintf("%s/client-%d/%s/%s", s.url, s.clients, dataset, mode), nil
}

func (s *Server) start() error {
	c, err := serverProcess(s.objects)
	if err != nil {
		return err
	}
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	s.run.OnClose(func() error {
		input.Close() // which ends the process, as the end of this one would
		return c.Wait()
	})
	url, err := bufio.NewReader(output).ReadString('\n')
	s.url = strings.TrimSpace(url)
	if s.url == "" {
		return errors.Join(err, errors.New("the process did not say where it listens"))
	}
	return nil
}
