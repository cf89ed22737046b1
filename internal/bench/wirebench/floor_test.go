package wirebench

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFloorsDecodeEverything(t *testing.T) {
	const few = 25
	server, err := (&apiserver.Servers{Objects: few}).Start("pods", apiserver.Lists)
	require.NoError(t, err)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	decoded := decodeJSON
	for _, format := range []apiserver.Format{apiserver.InJSON, apiserver.InProtobuf} {
		request, err := http.NewRequest(http.MethodGet, server.URL+"/api/v1/pods", nil)
		require.NoError(t, err)
		request.Header.Set("Accept", string(format))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		got, err := decoded(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, got, few)
		for i, pod := range objects.Pods(few, objects.Templated) {
			pod.ResourceVersion = got[i].ResourceVersion
			want, err := pod.Marshal() // protobuf, because quantities remember how they were written
			require.NoError(t, err)
			text, err := got[i].Marshal()
			require.NoError(t, err)
			require.Equal(t, string(want), string(text))
		}
		decoded = decodeProtobuf
	}
	_, err = decodeProtobuf(strings.NewReader("<html>"))
	assert.ErrorContains(t, err, "<html>")
}
