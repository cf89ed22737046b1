package objects

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClusterHasEachKeyOnce(t *testing.T) {
	for i, all := range Cluster(500) {
		kind := ClusterKinds[i].Name
		assert.NotEmpty(t, all, kind)
		keys := map[string]bool{}
		for _, object := range all {
			key := object.GetNamespace() + "/" + object.GetName()
			assert.False(t, keys[key], "%s %s is there twice", kind, key)
			keys[key] = true
			for _, entry := range object.GetManagedFields() {
				assert.True(t, json.Valid(entry.FieldsV1.GetRawBytes()), "managed fields of %s", kind)
			}
		}
	}
}
