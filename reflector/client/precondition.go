package client

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// precondition returns the resource version without which the server refuses a write. It returns ""
// unless that is certain, because with a wrong version a reconciler would take another writer's state
// for its own.
func precondition(kind types.PatchType, data []byte) string {
	if kind == types.JSONPatchType {
		return testedVersion(data)
	}
	// Names are compared as the server does. A struct would also match "resourceversion".
	var members, metadata map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["metadata"], &metadata) != nil {
		return "" // such as the YAML of an apply
	}
	if hasDirective(members) || hasDirective(metadata) {
		return ""
	}
	var version string
	if json.Unmarshal(metadata["resourceVersion"], &version) != nil {
		return ""
	}
	return version
}

// hasDirective reports whether a strategic merge patch may delete or replace what it names.
func hasDirective(members map[string]json.RawMessage) bool {
	for name := range members {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

const versionPath = "/metadata/resourceVersion"

// testedVersion returns the precondition of a JSON patch. The operation replace sets the version that
// the server compares at the end. The server repeats the operation test whenever it applies the patch
// again, to an object that changed meanwhile.
func testedVersion(data []byte) string {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(data, &operations) != nil {
		return ""
	}
	tested := ""
	for _, o := range operations {
		what, path, from := text(o["op"]), text(o["path"]), text(o["from"])
		switch {
		case path != "" && path[0] != '/':
			return "" // servers ignore all before the first slash
		case what == "test" && path != versionPath:
			continue
		case !changesVersion(path) && (what != "move" || !changesVersion(from)):
			continue
		case path != versionPath || what != "test" && what != "replace" && what != "add":
			return ""
		}
		version := text(o["value"])
		if version == "" || tested != "" && tested != version {
			return ""
		}
		tested = version
	}
	return tested
}

// changesVersion reports whether an operation at a path changes the resource version.
func changesVersion(path string) bool {
	return path == "" || strings.HasPrefix(versionPath+"/", path+"/")
}

// text returns a JSON string; empty for any other value.
func text(data json.RawMessage) (s string) {
	_ = json.Unmarshal(data, &s)
	return s
}
