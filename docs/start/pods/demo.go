package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demonstrate runs the program on an API server in memory with two pods. It changes them, and ends
// the program.
func demonstrate(ctx context.Context, out io.Writer) error {
	server, err := reflectortest.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	return play(ctx, out, server)
}

func play(ctx context.Context, out io.Writer, server *reflectortest.Server) error {
	for _, pod := range []*corev1.Pod{newPod("web", "node-2", corev1.PodPending), newPod("db", "node-1", corev1.PodRunning)} {
		if err := server.Create(pod); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		defer stop()
		result <- run(ctx, out, server.Config())
	}()
	for _, change := range []func() error{
		func() error { return server.Update(newPod("web", "node-2", corev1.PodRunning)) },
		func() error { return server.Create(newPod("cache", "node-1", corev1.PodPending)) },
		func() error { return server.Delete(newPod("db", "node-1", corev1.PodRunning)) },
		func() error { stop(); return nil },
	} {
		select {
		case <-time.After(time.Second): // so that people can read along
		case <-ctx.Done():
			return <-result
		}
		if err := change(); err != nil {
			stop()
			return errors.Join(err, <-result)
		}
	}
	return <-result
}

func newPod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
}
