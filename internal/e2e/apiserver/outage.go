package apiserver

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// KillAPIServer ends kube-apiserver as kill -9 does, and returns when it has ended. [Server.StartAPIServer] brings it back.
func (s *Server) KillAPIServer() error { return kill(s.apiServer, s.plane.APIServer.Stop) }

// StartAPIServer starts kube-apiserver again after [Server.KillAPIServer], at the same address and with the same certificates and data, and returns
// when it is healthy.
func (s *Server) StartAPIServer() error { return start(s.apiServer, s.plane.APIServer.Start) }

// KillEtcd ends etcd as kill -9 does, and returns when it has ended. [Server.StartEtcd] brings it back.
func (s *Server) KillEtcd() error { return kill(s.etcd, s.plane.Etcd.Stop) }

// StartEtcd starts etcd again after [Server.KillEtcd], at the same address and with the same data, and returns when it is healthy.
func (s *Server) StartEtcd() error { return start(s.etcd, s.plane.Etcd.Start) }

// kill ends a process and waits until envtest has seen its end. Until then, Stop fails with ESRCH
// and Start does nothing.
func kill(p *program, stop func() error) error {
	if err := p.kill(); err != nil {
		return err
	}
	limit := time.Now().Add(stopTimeout)
	err := stop()
	for errors.Is(err, syscall.ESRCH) && time.Now().Before(limit) {
		<-time.After(time.Millisecond)
		err = stop()
	}
	if err != nil {
		return fmt.Errorf("wait for the end of %s: %w", p.name, err)
	}
	return nil
}

func start(p *program, start func() error) error {
	if err := start(); err != nil {
		return fmt.Errorf("start %s again: %w\n%s", p.name, err, p.tail())
	}
	return nil
}
