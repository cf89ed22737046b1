package apiserver

import (
	"errors"
	"fmt"
	"os"
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

// PauseAPIServer stops kube-apiserver as SIGSTOP does: its connections stay open, and nothing answers.
// resume lets it go on. The caller must call it before the server stops.
func (s *Server) PauseAPIServer() (resume func() error, err error) { return pause(s.apiServer) }

// PauseEtcd is [Server.PauseAPIServer] for etcd.
func (s *Server) PauseEtcd() (resume func() error, err error) { return pause(s.etcd) }

func pause(p *program) (resume func() error, err error) {
	return func() error { return p.signal(syscall.SIGCONT) }, p.signal(syscall.SIGSTOP)
}

// SaveEtcd copies the data of etcd to a new folder, for [Server.RestoreEtcd]. etcd is paused meanwhile,
// so that the copy is what a machine would have after a crash at that moment.
func (s *Server) SaveEtcd(folder string) error {
	resume, err := s.PauseEtcd()
	if err != nil {
		return err
	}
	return errors.Join(os.CopyFS(folder, os.DirFS(s.plane.Etcd.DataDir)), resume())
}

// RestoreEtcd moves the folder of [Server.SaveEtcd] to where etcd has its data: later writes are lost,
// and their versions are used again. As before the restore of a backup, no kube-apiserver may run meanwhile,
// because it would go on serving what it has cached.
func (s *Server) RestoreEtcd(folder string) error {
	if err := s.KillEtcd(); err != nil {
		return err
	}
	data := s.plane.Etcd.DataDir
	if err := errors.Join(os.RemoveAll(data), os.Rename(folder, data), os.Chmod(data, 0o700)); err != nil {
		return fmt.Errorf("restore the data of etcd: %w", err)
	}
	return s.StartEtcd()
}

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
