package wirebench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The variables by which a process knows that it is one of this package's, and which.
const (
	serverVariable = "KUBEREFLECTOR_BENCH_WIRE_SERVER" // with the number of objects
	clientVariable = "KUBEREFLECTOR_BENCH_WIRE_CLIENT" // with an assignment
)

// Main is to be called first by every program that calls [Run], which starts the same program again as servers and as clients: in those it does their
// work and exits. Otherwise it returns.
func Main() {
	var err error
	switch {
	case os.Getenv(serverVariable) != "":
		var objects int
		if objects, err = strconv.Atoi(os.Getenv(serverVariable)); err == nil {
			err = runServer(objects, os.Stdin, os.Stdout)
		}
	case os.Getenv(clientVariable) != "":
		err = runClient(os.Getenv(clientVariable), os.Stdout)
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runClient(text string, out io.Writer) error {
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	s, err := measureClient(a)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(s)
}

// Command returns this program with a variable, by which it knows what it is to do.
func Command(ctx context.Context, variable, value string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), variable+"="+value)
	return c, nil
}

// Server is a server in a process of its own. Other comparisons may use one as well.
type Server struct {
	command *exec.Cmd
	input   io.Closer
	url     string
	clients int
}

// StartServer starts a server whose data sets have so many objects. The program must have called [Main].
func StartServer(ctx context.Context, objects int) (*Server, error) {
	c, err := Command(ctx, serverVariable, strconv.Itoa(objects))
	if err != nil {
		return nil, err
	}
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		input.Close()
		return nil, errors.Join(err, c.Wait())
	}
	return &Server{command: c, input: input, url: strings.TrimSpace(url)}, nil
}

// Stop ends the process by its input, as the end of this one would.
func (s *Server) Stop() error {
	s.input.Close()
	return s.command.Wait()
}

// Prepare has a data set built.
func (s *Server) Prepare(dataset string) error {
	response, err := http.Get(s.url + "/prepare/" + dataset)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("prepare data set %s: %s", dataset, response.Status)
	}
	return nil
}

// Root returns the root of an API server that a client has to itself, with one data set. It knows watches that begin with the state.
func (s *Server) Root(dataset string) string { return s.root(dataset, streams) }

func (s *Server) root(dataset, mode string) string {
	s.clients++
	return fmt.Sprintf("%s/client-%d/%s/%s", s.url, s.clients, dataset, mode)
}

// measure lets a client process do an assignment, with the server to itself.
func (s *Server) measure(ctx context.Context, a assignment, mode string) (sample, error) {
	a.Host = s.root(a.Dataset, mode)
	text, err := json.Marshal(a)
	if err != nil {
		return sample{}, err
	}
	c, err := Command(ctx, clientVariable, string(text))
	if err != nil {
		return sample{}, err
	}
	output, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr) // otherwise it is nobody's business: client-go logs there
		}
		return sample{}, fmt.Errorf("%s with %s: %w", a.Contender, a.Dataset, err)
	}
	var result sample
	return result, json.Unmarshal(output, &result)
}
