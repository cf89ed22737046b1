package client

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestPreconditionIsWhatTheServerChecks(t *testing.T) {
	const json, merge, strategic, patch = "", types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType
	for name, tc := range map[string]struct {
		kind types.PatchType
		data string
		want string
	}{
		"object":                     {json, `{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"5"}}`, "5"},
		"object without a version":   {json, `{"metadata":{"name":"a"}}`, ""},
		"apply":                      {types.ApplyPatchType, `{"metadata":{"resourceVersion":"5"}}`, "5"},
		"apply in YAML":              {types.ApplyPatchType, "metadata:\n  resourceVersion: '5'\n", ""},
		"merge patch":                {merge, `{"metadata":{"uid":"u","resourceVersion":"5"},"data":null}`, "5"},
		"merge patch without":        {merge, `{"data":{"resourceVersion":"5"}}`, ""},
		"no metadata":                {merge, `{"metadata":null}`, ""},
		"version deleted":            {merge, `{"metadata":{"resourceVersion":null}}`, ""},
		"number":                     {merge, `{"metadata":{"resourceVersion":5}}`, ""},
		"other case":                 {merge, `{"metadata":{"resourceversion":"5"}}`, ""},
		"other case of metadata":     {merge, `{"Metadata":{"resourceVersion":"5"}}`, ""},
		"strategic":                  {strategic, `{"metadata":{"resourceVersion":"5"}}`, "5"},
		"strategic that deletes":     {strategic, `{"metadata":{"$patch":"delete","resourceVersion":"5"}}`, ""},
		"strategic that deletes all": {strategic, `{"$patch":"replace","metadata":{"resourceVersion":"5"}}`, ""},
		"no JSON":                    {merge, `{`, ""},

		"JSON patch, test":             {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"add","path":"/data","value":{}}]`, "5"},
		"JSON patch, replace":          {patch, `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"}]`, "5"},
		"JSON patch, test and replace": {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"/metadata/resourceVersion","value":"5"}]`, "5"},
		"JSON patch, two versions":     {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"/metadata/resourceVersion","value":"6"}]`, ""},
		"JSON patch, no version":       {patch, `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"remove","path":"/data/a"}]`, ""},
		"JSON patch, removed":          {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"remove","path":"/metadata/resourceVersion"}]`, ""},
		"JSON patch, null":             {patch, `[{"op":"replace","path":"/metadata/resourceVersion","value":null}]`, ""},
		"JSON patch, parent replaced":  {patch, `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"/metadata","value":{}}]`, ""},
		"JSON patch, all replaced":     {patch, `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"","value":{}}]`, ""},
		"JSON patch, moved away":       {patch, `[{"op":"replace","path":"/metadata/resourceVersion","value":"5"},{"op":"move","from":"/metadata/resourceVersion","path":"/data/a"}]`, ""},
		"JSON patch, copied over":      {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"copy","from":"/data/a","path":"/metadata/resourceVersion"}]`, ""},
		"JSON patch, odd path":         {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"remove","path":"x/metadata/resourceVersion"}]`, ""},
		"JSON patch, other names":      {patch, `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"remove","path":"/metadata/labels"},{"op":"remove","path":"/metadata/resourceVersions"}]`, "5"},
		"JSON patch that is none":      {patch, `{"metadata":{"resourceVersion":"5"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, precondition(tc.kind, []byte(tc.data))) })
	}
}
