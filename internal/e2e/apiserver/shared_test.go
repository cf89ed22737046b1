package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type exitCode int

func (c exitCode) Run() int { return int(c) }

func TestSharedThatNoTestAskedForStartsNothing(t *testing.T) {
	var unused Shared
	require.Equal(t, 0, unused.Tests(exitCode(0)).Run())
	require.Equal(t, 2, unused.Tests(exitCode(2)).Run())
	require.Nil(t, unused.server)
}

func TestSharedIsOneServerThatEndsWithTheTests(t *testing.T) {
	var own Shared
	server := own.Server(t)
	require.Same(t, server, own.Server(t))
	require.Equal(t, 1, own.Tests(exitCode(1)).Run())
	require.NoDirExists(t, server.folder)
}
