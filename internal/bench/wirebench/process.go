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

// serverVariable marks the process of a server. It has the number of objects.
const serverVariable = "KUBEREFLECTOR_BENCH_WIRE_SERVER"

var worker = Worker[assignment, sample]{Variable: "KUBEREFLECTOR_BENCH_WIRE_CLIENT", Work: measureClient}

// Main does the work of a server or a client and exits, in a process that [Run] started; in others it returns. A program that
// calls Run calls Main first.
func Main() {
	if text := os.Getenv(serverVariable); text != "" {
		objects, err := strconv.Atoi(text)
		if err == nil {
			err = runServer(objects, os.Stdin, os.Stdout)
		}
		exit(err)
	}
	worker.Main()
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Worker measures in processes of their own, which run the same program.
type Worker[A, S any] struct {
	// Variable marks such a process. It has the assignment.
	Variable string
	// Work measures what an assignment says.
	Work func(A) (S, error)
}

// Main does the work and exits, in a process of the worker; in others it returns.
func (w Worker[A, S]) Main() {
	text := os.Getenv(w.Variable)
	if text == "" {
		return
	}
	var assignment A
	err := json.Unmarshal([]byte(text), &assignment)
	if err == nil {
		var s S
		if s, err = w.Work(assignment); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
	}
	exit(err)
}

// Measure starts a process and returns its sample.
func (w Worker[A, S]) Measure(ctx context.Context, assignment A) (s S, err error) {
	text, err := json.Marshal(assignment)
	if err != nil {
		return s, err
	}
	c, err := command(ctx, w.Variable, string(text))
	if err != nil {
		return s, err
	}
	output, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr) // otherwise left out: client-go logs there
	}
	if err != nil {
		return s, fmt.Errorf("measure %s: %w", text, err)
	}
	return s, json.Unmarshal(output, &s)
}

// command returns this program with a variable that says what to do.
func command(ctx context.Context, variable, value string) (*exec.Cmd, error) {
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

// StartServer starts a server whose data sets have the given number of objects. The program must
// have called [Main].
func StartServer(ctx context.Context, objects int) (*Server, error) {
	c, err := command(ctx, serverVariable, strconv.Itoa(objects))
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
	return worker.Measure(ctx, a)
}
