package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestPods(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(clustertest.Output(t, cluster.With(run, demo))), "\n")
	of := func(who string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, who) })
	}
	assert.Equal(t, []string{
		"early: web appeared (Pending)",
		"early: db appeared (Pending)",
		"early: web changed from Pending to Running",
		"early: db changed from Pending to Running",
		"early: web is gone (Running)",
		"early: web appeared (Pending)",
	}, of("early"))
	assert.Equal(t, []string{
		"late : db was there (Pending)",
		"late : web was there (Running)",
		"late : db changed from Pending to Running",
		"late : web is gone (Running)",
		"late : web appeared (Pending)",
	}, of("late"))
	joined := slices.Index(lines, "(the late subscriber joins)")
	assert.Equal(t, 3, joined)
}
