package main

import (
	"testing"

	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/stretchr/testify/assert"
)

func TestPersisted(t *testing.T) {
	assert.Equal(t, `The first process:
  ConfigMaps in the file: 0
  Addition of default/sign with map[text:welcome]
  Addition of default/stock with map[text:full]
  Addition of default/till with map[text:open]
  lists: 1
No process runs. The till is closed, and the sign is deleted.
The second process, while the server does not answer its watch:
  ConfigMaps in the file: 3
  Addition of default/sign with map[text:welcome]
  Addition of default/stock with map[text:full]
  Addition of default/till with map[text:open]
The server answers:
  Modification of default/till with map[text:closed]
  Deletion of default/sign with map[text:welcome]
  lists: 0
`, clustertest.Output(t, demo))
}
