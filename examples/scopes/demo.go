package main

import (
	"context"
	"io"
	"strings"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demo runs on two in-memory API servers that hold pods. The first one is west.
func demo(ctx context.Context, out io.Writer, west cluster.Cluster) error {
	server, err := reflectortest.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	east, err := cluster.Of(server)
	if err != nil {
		return err
	}
	if err := west.Create(pod("shop/till"), pod("bank/vault"))(); err != nil {
		return err
	}
	if err := east.Create(pod("shop/stall"), pod("bank/safe"), pod("farm/barn"))(); err != nil {
		return err
	}
	return run(ctx, out, west, east)
}

func pod(key string) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
